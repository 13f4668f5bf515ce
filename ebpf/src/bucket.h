/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The bucket of a value: exact below 8, then 8 buckets for each power of two. The Rust side has the
 * same function (bucket.rs), and a test compiles this file for the host and compares the two. No
 * loop and no count-leading-zeros: the programs have neither.
 */
#ifndef RINGPERF_BUCKET_H
#define RINGPERF_BUCKET_H

static inline __attribute__((always_inline)) unsigned int bucket_of(unsigned long long value)
{
	unsigned long long rest = value;
	unsigned int exponent = 0;

	if (value < 8)
		return (unsigned int)value;
	if (rest >> 32) {
		rest >>= 32;
		exponent += 32;
	}
	if (rest >> 16) {
		rest >>= 16;
		exponent += 16;
	}
	if (rest >> 8) {
		rest >>= 8;
		exponent += 8;
	}
	if (rest >> 4) {
		rest >>= 4;
		exponent += 4;
	}
	if (rest >> 2) {
		rest >>= 2;
		exponent += 2;
	}
	if (rest >> 1)
		exponent += 1;
	return (exponent - 2) * 8 + (unsigned int)((value >> (exponent - 3)) & 7);
}

#endif
