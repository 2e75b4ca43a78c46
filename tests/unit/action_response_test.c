// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "executor/action/response.h"
#include "executor/base/pb.h"
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855/0"

static struct bj_arena arena;

static int setup(void **state)
{
	(void)state;
	bj_arena_init(&arena, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	bj_arena_deinit(&arena);
	return 0;
}

static ProtobufCMessage *unpack(struct bj_str bytes, const ProtobufCMessageDescriptor *type)
{
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *message = NULL;
	assert_non_null(bytes.ptr);
	if (bj_pb_unpack(bytes, type, &arena, &message, &err) < 0)
		fail_msg("%s", err.msg);
	return message;
}

static const re_execute_response *pack(const struct bj_response *response)
{
	return (const re_execute_response *)unpack(
		bj_pack_response(response, &arena),
		&build__bazel__remote__execution__v2__execute_response__descriptor);
}

static const Google__Rpc__PreconditionFailure *precondition_of(const Google__Rpc__Status *status)
{
	assert_int_equal(status->n_details, 1);
	assert_string_equal(status->details[0]->type_url,
			    "type.googleapis.com/google.rpc.PreconditionFailure");
	return (const Google__Rpc__PreconditionFailure *)unpack(
		bj_str_n(status->details[0]->value.data, status->details[0]->value.len),
		&google__rpc__precondition_failure__descriptor);
}

static struct bj_digest *digests(size_t n)
{
	struct bj_digest *list = BJ_ARENA_ARRAY(&arena, struct bj_digest, n);
	assert_non_null(list);
	for (size_t i = 0; i < n; i++) {
		list[i] = bj_digest_empty(BJ_DIGEST_SHA256);
		list[i].size_bytes = i;
	}
	return list;
}

/* Execution.Execute: one MISSING for each blob, subject "blobs/{hash}/{size}", code FAILED_PRECONDITION (9). */
static void missing_blobs(void **state)
{
	struct bj_failure failure = { .err = BJ_ERR_NULL };
	struct bj_response response = { .failure = &failure };
	(void)state;
	bj_failure_missing(&failure, (struct bj_missing){ digests(3), 3 });
	const re_execute_response *r = pack(&response);
	assert_null(r->result);
	assert_int_equal(r->status->code, 9);
	assert_non_null(strstr(r->status->message, "3 blobs are not in the CAS"));
	assert_non_null(strstr(r->status->message, EMPTY));
	const Google__Rpc__PreconditionFailure *p = precondition_of(r->status);
	assert_int_equal(p->n_violations, 3);
	for (size_t i = 0; i < 3; i++) {
		char subject[128];
		(void)snprintf(subject, sizeof(subject), "blobs/%.64s/%zu", EMPTY, i);
		assert_string_equal(p->violations[i]->type, "MISSING");
		assert_string_equal(p->violations[i]->subject, subject);
	}
}

static void one_missing_blob(void **state)
{
	struct bj_failure failure = { .err = BJ_ERR_NULL };
	(void)state;
	bj_failure_missing(&failure, (struct bj_missing){ digests(1), 1 });
	assert_string_equal(failure.err.msg, "1 blob is not in the CAS: " EMPTY);
	const Google__Rpc__Status *status = (const Google__Rpc__Status *)unpack(
		bj_pack_status(&failure, &arena), &google__rpc__status__descriptor);
	assert_int_equal(precondition_of(status)->n_violations, 1);
}

static void very_many_missing_blobs_fit_a_message(void **state)
{
	enum { N = 200000 };
	struct bj_failure failure = { .err = BJ_ERR_NULL };
	struct bj_response response = { .failure = &failure };
	(void)state;
	bj_failure_missing(&failure, (struct bj_missing){ digests(N), N });
	struct bj_str packed = bj_pack_response(&response, &arena);
	assert_true(packed.len < (4 << 20) - (64 << 10));
	const re_execute_response *r = pack(&response);
	assert_non_null(strstr(r->status->message, "200000 blobs"));
	assert_true(precondition_of(r->status)->n_violations >= 20000);
}

static void a_result(void **state)
{
	re_action_result result = BUILD__BAZEL__REMOTE__EXECUTION__V2__ACTION_RESULT__INIT;
	struct bj_response response = { .result = &result,
					.cached = true,
					.message = BJ_STR_LIT("m"),
					.log_name = BJ_STR_LIT("sandbox"),
					.log_digest = bj_digest_empty(BJ_DIGEST_SHA256) };
	(void)state;
	result.exit_code = 7;
	const re_execute_response *r = pack(&response);
	assert_int_equal(r->result->exit_code, 7);
	assert_true(r->cached_result);
	assert_null(r->status); /* unset is OK */
	assert_string_equal(r->message, "m");
	assert_int_equal(r->n_server_logs, 1);
	assert_string_equal(r->server_logs[0]->key, "sandbox");
	assert_true(r->server_logs[0]->value->human_readable);
	assert_int_equal(r->server_logs[0]->value->digest->size_bytes, 0);
}

/* DEADLINE_EXCEEDED (4) comes with what the command printed. */
static void a_failure_beside_a_result(void **state)
{
	re_action_result result = BUILD__BAZEL__REMOTE__EXECUTION__V2__ACTION_RESULT__INIT;
	struct bj_failure failure = { .err = BJ_ERR_NULL };
	struct bj_response response = { .failure = &failure, .result = &result };
	(void)state;
	(void)bj_err_set(&failure.err, BJ_DEADLINE_EXCEEDED, "too long");
	const re_execute_response *r = pack(&response);
	assert_non_null(r->result);
	assert_int_equal(r->status->code, 4);
	assert_string_equal(r->status->message, "too long");
	assert_int_equal(r->status->n_details, 0);
}

static void texts_are_fit_to_be_shown(void **state)
{
	static const struct {
		const char *msg, *want;
	} rows[] = {
		{ "plain \xc3\xa9 \"x\\xff\"",
		  "plain \xc3\xa9 \"x\\xff\"" }, /* shown already: kept */
		{ "raw \x1b\xff", "raw \\x1b\\xff" },
		{ "line\nline", "line\\nline" },
	};
	(void)state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_failure failure = { .err = BJ_ERR_NULL };
		struct bj_response response = { .failure = &failure };
		(void)bj_err_set(&failure.err, BJ_INTERNAL, "%s", rows[i].msg);
		assert_string_equal(pack(&response)->status->message, rows[i].want);
	}
}

static void operation_metadata(void **state)
{
	struct bj_run_request request = { .action = bj_digest_empty(BJ_DIGEST_SHA256) };
	(void)state;
	request.action.size_bytes = 5;
	const BJ_RE(ExecuteOperationMetadata) *m = (const BJ_RE(ExecuteOperationMetadata) *)unpack(
		bj_pack_operation_metadata(&request, 3, &arena),
		&build__bazel__remote__execution__v2__execute_operation_metadata__descriptor);
	assert_int_equal(m->stage, 3);
	assert_int_equal(m->action_digest->size_bytes, 5);
	assert_memory_equal(m->action_digest->hash, EMPTY, 64);
}

/* With any amount of memory: a status that says what happened, or nothing at all. */
static void each_size_of_memory(void **state)
{
	struct bj_failure failure = { .err = BJ_ERR_NULL };
	struct bj_response response = { .failure = &failure,
					.message = BJ_STR_LIT("m"),
					.log_name = BJ_STR_LIT("sandbox"),
					.log_digest = bj_digest_empty(BJ_DIGEST_SHA256) };
	size_t n_none = 0;
	bool is_whole = false;
	(void)state;
	bj_failure_missing(&failure, (struct bj_missing){ digests(2), 2 });
	for (size_t cap = 32; !is_whole; cap += 32) {
		struct bj_arena small;
		bj_arena_init(&small, cap);
		struct bj_str packed = bj_pack_response(&response, &small);
		n_none += packed.ptr == NULL;
		if (packed.ptr) {
			const re_execute_response *r = (const re_execute_response *)unpack(
				packed,
				&build__bazel__remote__execution__v2__execute_response__descriptor);
			assert_int_equal(r->status->code, 9);
			is_whole = r->status->n_details == 1 && r->n_server_logs == 1;
		}
		bj_arena_deinit(&small);
	}
	assert_true(n_none > 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(missing_blobs),
		TEST(one_missing_blob),
		TEST(very_many_missing_blobs_fit_a_message),
		TEST(a_result),
		TEST(a_failure_beside_a_result),
		TEST(texts_are_fit_to_be_shown),
		TEST(operation_metadata),
		TEST(each_size_of_memory),
	};
	return cmocka_run_group_tests_name("action/response", tests, NULL, NULL);
}
