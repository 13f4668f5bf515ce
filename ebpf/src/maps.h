/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The maps of the slow-path programs. Sizes and numbers come from layout.h. */
#ifndef RINGPERF_MAPS_H
#define RINGPERF_MAPS_H

#include "kernel.h"
#include "layout.h"

/*
 * Which sockets are ours. User space puts the number of the flow on each descriptor; a listener's
 * accepted sockets inherit it (BPF_F_CLONE). The storage goes with its socket.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, __u64);
} flows SEC(".maps");

/* One bit for each port that is ours, for packets that have no socket (yet). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORT_WORDS);
	__type(key, __u32);
	__type(value, __u64);
} ports SEC(".maps");

/* Network namespaces (inode numbers) in which those ports are ours. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NAMESPACES_MAX);
	__type(key, __u64);
	__type(value, __u64);
} namespaces SEC(".maps");

/* Dropped packets by reason and place. */
struct drop_key {
	__u64 reason;
	__u64 location;
};

struct drop_value {
	__u64 ours;
	__u64 system;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, DROPS_MAX);
	__type(key, struct drop_key);
	__type(value, struct drop_value);
} drops SEC(".maps");

/* Retransmitted segments by flow and cause; flows that are not ours share one number. */
struct retransmit_key {
	__u64 flow;
	__u64 cause;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, RETRANSMITS_MAX);
	__type(key, struct retransmit_key);
	__type(value, __u64);
} retransmits SEC(".maps");

/* Plain counts: two for each event, ours and the whole system's (which includes ours). */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, EVENTS * 2);
	__type(key, __u32);
	__type(value, __u64);
} events SEC(".maps");

static __always_inline void add_at(__u32 index, __u64 n)
{
	__u64 *count = bpf_map_lookup_elem(&events, &index);

	if (count)
		*count += n;
}

static __always_inline void count_event(__u32 event, _Bool ours, __u64 n)
{
	if (ours)
		add_at(event * 2, n);
	add_at(event * 2 + 1, n);
}

#endif
