// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include "executor/base/alloc.h"
#include "executor/base/map.h"

static void put_get_remove(void **state)
{
	(void)state;
	struct bj_map map = BJ_MAP_NULL;
	int a = 1;
	int b = 2;
	void *old = &map;
	assert_null(bj_map_get(&map, BJ_STR_LIT("k")));
	assert_null(bj_map_remove(&map, BJ_STR_LIT("k")));
	assert_true(bj_map_put(&map, BJ_STR_LIT("k"), &a, &old));
	assert_null(old);
	assert_ptr_equal(bj_map_get(&map, BJ_STR_LIT("k")), &a);
	assert_null(bj_map_get(&map, BJ_STR_LIT("K")));
	assert_null(bj_map_get(&map, BJ_STR_LIT("k\0")));
	assert_true(bj_map_put(&map, BJ_STR_LIT("k"), &b, &old));
	assert_ptr_equal(old, &a);
	assert_int_equal(map.n_entries, 1);
	assert_ptr_equal(bj_map_remove(&map, BJ_STR_LIT("k")), &b);
	assert_null(bj_map_get(&map, BJ_STR_LIT("k")));
	assert_int_equal(map.n_entries, 0);
	bj_map_deinit(&map);
	bj_map_deinit(&map);
}

static void the_empty_key_is_a_key(void **state)
{
	(void)state;
	struct bj_map map = BJ_MAP_NULL;
	int a = 1;
	int b = 2;
	assert_true(bj_map_put(&map, BJ_STR_NULL, &a, NULL));
	assert_ptr_equal(bj_map_get(&map, BJ_STR_LIT("")), &a);
	assert_true(bj_map_put(&map, BJ_STR_LIT(""), &b, NULL));
	assert_int_equal(map.n_entries, 1);
	assert_ptr_equal(bj_map_get(&map, BJ_STR_NULL), &b);
	size_t pos = 0;
	const struct bj_map_slot *slot = bj_map_next(&map, &pos);
	assert_non_null(slot);
	assert_non_null(slot->key.ptr);
	assert_ptr_equal(bj_map_remove(&map, BJ_STR_NULL), &b);
	bj_map_deinit(&map);
}

static void a_replacement_takes_the_new_key(void **state)
{
	(void)state;
	struct bj_map map = BJ_MAP_NULL;
	char *old_key = bj_strdup("key");
	char *new_key = bj_strdup("key");
	int value = 1;
	assert_true(bj_map_put(&map, bj_str_of(old_key), &value, NULL));
	assert_true(bj_map_put(&map, bj_str_of(new_key), &value, NULL));
	bj_free(old_key); /* a sanitizer sees it if the map still looks here */
	assert_ptr_equal(bj_map_get(&map, BJ_STR_LIT("key")), &value);
	size_t pos = 0;
	assert_ptr_equal(bj_map_next(&map, &pos)->key.ptr, new_key);
	bj_map_deinit(&map);
	bj_free(new_key);
}

static void put_null(void *arg)
{
	BJ_IGNORE(bj_map_put(arg, BJ_STR_LIT("k"), NULL, NULL)); /* does not return */
}

static void null_values_are_asserted(void **state)
{
	(void)state;
	struct bj_map map = BJ_MAP_NULL;
	expect_abort(put_null, &map);
}

enum { N_KEYS = 700 };

struct oracle {
	char keys[N_KEYS][8];
	void *values[N_KEYS]; /* NULL: absent */
	size_t n_entries;
};

static void fill_keys(struct oracle *oracle)
{
	for (size_t i = 0; i < N_KEYS; i++)
		snprintf(oracle->keys[i], sizeof(oracle->keys[i]), "%zu", i * 7919 % 10007);
}

static void check_against(const struct bj_map *map, const struct oracle *oracle)
{
	assert_int_equal(map->n_entries, oracle->n_entries);
	for (size_t i = 0; i < N_KEYS; i++)
		assert_ptr_equal(bj_map_get(map, bj_str_of(oracle->keys[i])), oracle->values[i]);
	size_t n = 0;
	size_t pos = 0;
	const struct bj_map_slot *slot;
	while ((slot = bj_map_next(map, &pos)))
		n++;
	assert_int_equal(n, oracle->n_entries);
}

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void random_operations_agree_with_an_array(void **state)
{
	(void)state;
	static struct oracle oracle;
	static char values[N_KEYS * 2];
	fill_keys(&oracle);
	struct bj_map map = BJ_MAP_NULL;
	uint64_t seed = 88172645463325252u;
	for (int step = 0; step < 200000; step++) {
		size_t i = next_random(&seed) % N_KEYS;
		struct bj_str key = bj_str_of(oracle.keys[i]);
		/* The share of removals swings, so the table fills up and runs empty. */
		bool is_removal = next_random(&seed) % 100 < (step / 20000 % 2 ? 80u : 20u);
		if (is_removal) {
			assert_ptr_equal(bj_map_remove(&map, key), oracle.values[i]);
			oracle.n_entries -= oracle.values[i] != NULL;
			oracle.values[i] = NULL;
		} else {
			void *value = &values[next_random(&seed) % sizeof(values)];
			void *old;
			assert_true(bj_map_put(&map, key, value, &old));
			assert_ptr_equal(old, oracle.values[i]);
			oracle.n_entries += oracle.values[i] == NULL;
			oracle.values[i] = value;
		}
		if (step % 997 == 0)
			check_against(&map, &oracle);
	}
	check_against(&map, &oracle);
	bj_map_deinit(&map);
}

/* Keys that all want the last slot of sixteen, so that the run wraps around the end of the table. */
static void a_run_that_wraps_is_closed_in_every_order(void **state)
{
	(void)state;
	enum { N = 8 };
	char keys[N][16];
	size_t found = 0;
	for (int i = 0; found < N; i++) {
		snprintf(keys[found], sizeof(keys[found]), "k%d", i);
		uint64_t want = found < 5 ? 15 : found < 7 ? 14 : 1; /* and neighbours in between */
		if ((bj_hash(bj_str_of(keys[found])) & 15) == want)
			found++;
	}
	for (unsigned int order = 0; order < 20160; order++) {
		struct bj_map map = BJ_MAP_NULL;
		for (size_t i = 0; i < N; i++)
			assert_true(bj_map_put(&map, bj_str_of(keys[i]), keys[i], NULL));
		assert_int_equal(map.n_slots, 16);
		bool is_gone[N] = { false };
		unsigned int code = order;
		for (size_t left = N; left > 0; left--) {
			size_t pick = code % left; /* the pick-th of those that are left */
			code /= (unsigned int)left;
			size_t i = 0;
			while (is_gone[i] || pick-- > 0)
				i++;
			is_gone[i] = true;
			assert_ptr_equal(bj_map_remove(&map, bj_str_of(keys[i])), keys[i]);
			for (size_t k = 0; k < N; k++)
				assert_ptr_equal(bj_map_get(&map, bj_str_of(keys[k])),
						 is_gone[k] ? NULL : keys[k]);
		}
		bj_map_deinit(&map);
	}
}

static void a_put_without_memory_changes_nothing(void **state)
{
	(void)state;
	static struct oracle oracle;
	fill_keys(&oracle);
	struct bj_map map = BJ_MAP_NULL;
	size_t n_failures = 0;
	for (size_t i = 0; i < N_KEYS; i++) {
		struct bj_str key = bj_str_of(oracle.keys[i]);
		void *old = &map;
		bj_alloc_fail_after(0);
		bool is_put = bj_map_put(&map, key, oracle.keys[i], &old);
		bool did_fail = bj_alloc_fail_disarm();
		assert_int_equal(is_put, !did_fail);
		if (did_fail) {
			n_failures++;
			assert_ptr_equal(old, &map); /* untouched */
			check_against(&map, &oracle);
			assert_true(bj_map_put(&map, key, oracle.keys[i], NULL));
		}
		oracle.values[i] = oracle.keys[i];
		oracle.n_entries++;
	}
	check_against(&map, &oracle);
	assert_int_equal(n_failures, 7); /* 16, 32, … 1024 slots */
	bj_map_deinit(&map);
}

static void a_replacement_in_a_full_table_needs_no_memory(void **state)
{
	(void)state;
	static struct oracle oracle;
	fill_keys(&oracle);
	struct bj_map map = BJ_MAP_NULL;
	for (size_t i = 0; i < 12; i++)
		assert_true(bj_map_put(&map, bj_str_of(oracle.keys[i]), &map, NULL));
	assert_int_equal(map.n_slots, 16);
	bj_alloc_fail_after(0);
	assert_true(bj_map_put(&map, bj_str_of(oracle.keys[3]), &oracle, NULL));
	assert_false(bj_map_put(&map, bj_str_of(oracle.keys[12]), &oracle, NULL));
	assert_true(bj_alloc_fail_disarm());
	bj_map_deinit(&map);
}

static void hash_is_xxh3(void **state)
{
	(void)state;
	/* XXH3_64bits of no bytes with seed 0, as published with the algorithm's test vectors. */
	assert_true(bj_hash(BJ_STR_NULL) == UINT64_C(0x2D06800538D394C2));
	assert_true(bj_hash(BJ_STR_LIT("")) == bj_hash(BJ_STR_NULL));
	assert_true(bj_hash(BJ_STR_LIT("a")) != bj_hash(BJ_STR_LIT("b")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_get_remove),
		cmocka_unit_test(the_empty_key_is_a_key),
		cmocka_unit_test(a_replacement_takes_the_new_key),
		cmocka_unit_test(null_values_are_asserted),
		cmocka_unit_test(random_operations_agree_with_an_array),
		cmocka_unit_test(a_run_that_wraps_is_closed_in_every_order),
		cmocka_unit_test(a_put_without_memory_changes_nothing),
		cmocka_unit_test(a_replacement_in_a_full_table_needs_no_memory),
		cmocka_unit_test(hash_is_xxh3),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
