/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * One object, so that the programs share their maps: clang compiles this file, which takes in one
 * file for each concern.
 */
#include "drops.bpf.c"
#include "queues.bpf.c"
#include "uring.bpf.c"
#include "tcp.bpf.c"

/* The GPL side of the licence is what the helpers that read kernel memory ask for. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
