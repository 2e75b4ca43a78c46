// SPDX-License-Identifier: Apache-2.0
/*
 * The generated code keeps what is on the wire. The bytes below were worked out by hand from the encoding's rules.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "belljar/v1/report.pb-c.h"
#include "build/bazel/remote/execution/v2/remote_execution.pb-c.h"

static void digest_packs_as_fields_1_and_2(void **state)
{
	(void)state;
	static const uint8_t wire[] = { 0x0a, 0x02, 'a', 'b', 0x10, 0xac, 0x02 };
	Build__Bazel__Remote__Execution__V2__Digest digest =
		BUILD__BAZEL__REMOTE__EXECUTION__V2__DIGEST__INIT;
	uint8_t out[sizeof(wire)];

	digest.hash = (char *)"ab";
	digest.size_bytes = 300;
	assert_int_equal(build__bazel__remote__execution__v2__digest__get_packed_size(&digest),
			 sizeof(wire));
	assert_int_equal(build__bazel__remote__execution__v2__digest__pack(&digest, out),
			 sizeof(wire));
	assert_memory_equal(out, wire, sizeof(wire));
}

static void empty_directory_packs_to_nothing(void **state)
{
	(void)state;
	Build__Bazel__Remote__Execution__V2__Directory directory =
		BUILD__BAZEL__REMOTE__EXECUTION__V2__DIRECTORY__INIT;

	assert_int_equal(
		build__bazel__remote__execution__v2__directory__get_packed_size(&directory), 0);
}

static void report_keeps_kind_and_raw_path(void **state)
{
	(void)state;
	static const uint8_t wire[] = {
		0x4a, 0x06,		/* SandboxReport.violations = 9, six bytes */
		0x08, 0x05,		/*   Violation.kind = 1: UNDECLARED_OUTPUT */
		0x22, 0x02, 0xff, 0x00, /*   Violation.raw_path = 4: two bytes, one of them NUL */
	};
	Belljar__V1__SandboxReport *report =
		belljar__v1__sandbox_report__unpack(NULL, sizeof(wire), wire);

	assert_non_null(report);
	assert_int_equal(report->n_violations, 1);
	assert_int_equal(report->violations[0]->kind,
			 BELLJAR__V1__VIOLATION__KIND__UNDECLARED_OUTPUT);
	assert_int_equal(report->violations[0]->raw_path.len, 2);
	assert_memory_equal(report->violations[0]->raw_path.data, "\xff", 2);
	belljar__v1__sandbox_report__free_unpacked(report, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digest_packs_as_fields_1_and_2),
		cmocka_unit_test(empty_directory_packs_to_nothing),
		cmocka_unit_test(report_keeps_kind_and_raw_path),
	};

	return cmocka_run_group_tests_name("proto", tests, NULL, NULL);
}
