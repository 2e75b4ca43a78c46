// SPDX-License-Identifier: Apache-2.0
/* belljar.v1.Explain: the last reports of this server, for `belljar explain`. */
#include "belljar/v1/explain.pb-c.h"
#include "executor/base/clock.h"
#include "executor/base/pb.h"
#include "executor/service/service-internal.h"

enum { DEFAULT_LIMIT = 1000, REPLY_MAX_BYTES = 3 << 20 };

static int no_memory(struct unary *u)
{
	return bj_err_set(&u->err, BJ_RESOURCE_EXHAUSTED, "out of memory for the reply");
}

static Belljar__V1__StoredReport *stored_pb(struct unary *u, const struct bj_stored_report *r)
{
	Belljar__V1__StoredReport *pb = BJ_ARENA_NEW(u->arena, Belljar__V1__StoredReport);
	Google__Protobuf__Timestamp *finished = BJ_ARENA_NEW(u->arena, Google__Protobuf__Timestamp);
	ProtobufCMessage *message;

	/* What was packed by this process unpacks again: a failure here is want of memory. */
	if (!pb || !finished ||
	    bj_pb_unpack(r->packed, &belljar__v1__sandbox_report__descriptor, u->arena, &message,
			 &u->err) < 0)
		return NULL;
	Belljar__V1__SandboxReport *report = (Belljar__V1__SandboxReport *)message;

	/* A hit carries the report of the run; who asked for it this time is the newer truth. */
	if (r->target.len)
		report->target = (char *)(uintptr_t)r->target.ptr;
	if (r->mnemonic.len)
		report->mnemonic = (char *)(uintptr_t)r->mnemonic.ptr;
	if (r->invocation.len)
		report->invocation = (char *)(uintptr_t)r->invocation.ptr;
	google__protobuf__timestamp__init(finished);
	finished->seconds = (int64_t)(r->finished_ns / BJ_NS_PER_SEC);
	finished->nanos = (int32_t)(r->finished_ns % BJ_NS_PER_SEC);
	belljar__v1__stored_report__init(pb);
	pb->report = report;
	pb->exit_code = r->exit_code;
	pb->finished = finished;
	pb->cached = r->cached;
	pb->status_message = (char *)(uintptr_t)r->message.ptr;
	return pb;
}

static int fill(struct unary *u, const struct bj_stored_report *list, size_t n,
		Belljar__V1__ListReportsResponse *reply)
{
	reply->reports = BJ_ARENA_ARRAY(u->arena, Belljar__V1__StoredReport *, n);
	if (!reply->reports)
		return no_memory(u);
	for (size_t i = 0; i < n; i++) {
		reply->reports[i] = stored_pb(u, &list[i]);
		if (!reply->reports[i])
			return bj_err_is_set(&u->err) ? -(int)u->err.code : no_memory(u);
		reply->n_reports++;
	}
	return 0;
}

static int list_reports(struct unary *u)
{
	const Belljar__V1__ListReportsRequest *req =
		(const Belljar__V1__ListReportsRequest *)u->request;
	struct bj_reports_query query = {
		.target = bj_str_of(req->target),
		.mnemonic = bj_str_of(req->mnemonic),
		.action_prefix = bj_str_of(req->action_digest_prefix),
		.invocation = bj_str_of(req->invocation),
		.last_build = req->last_build,
		.only_violations = req->only_violations,
		.limit = req->limit ? req->limit : DEFAULT_LIMIT,
		.max_bytes = REPLY_MAX_BYTES, /* newest first: what does not fit is the oldest */
	};
	Belljar__V1__ListReportsResponse *reply =
		BJ_ARENA_NEW(u->arena, Belljar__V1__ListReportsResponse);
	struct bj_stored_report *list;
	size_t n;
	int r = reply ? bj_reports_find(u->services->opts.reports, &query, u->arena, &list, &n,
					&u->err)
		      : no_memory(u);

	if (r < 0)
		return r;
	belljar__v1__list_reports_response__init(reply);
	r = fill(u, list, n, reply);
	u->reply = &reply->base;
	return r;
}

static const struct unary_method list_method = { &belljar__v1__list_reports_request__descriptor,
						 list_reports };

static void on_list(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	unary_open(call, request, &list_method);
}

static const struct bj_rpc_handler list_handler = { .open = on_list };

struct service_table service_explain(void)
{
	static const struct bj_rpc_method methods[] = {
		{ "/belljar.v1.Explain/ListReports", BJ_RPC_UNARY, &list_handler, NULL },
	};
	return (struct service_table){ methods, BJ_ARRAY_LEN(methods) };
}
