/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * What io_uring does behind the workers' backs: requests that it gave to threads of its own,
 * completions that found the queue full, runs of work that it had put off. All happen on the
 * worker's thread, which is how they are known to be ours.
 */
#include "sched.bpf.c"

static __always_inline int count_of_worker(__u32 event)
{
	__u64 number = (__u32)bpf_get_current_pid_tgid();
	__u32 key = number & (THREADS - 1);
	struct thread *thread = bpf_map_lookup_elem(&threads, &key);

	count_event(event, thread && number && thread->number == number, 1);
	return 0;
}

SEC("tp_btf/io_uring_queue_async_work")
int BPF_PROG(io_uring_queue_async_work__0)
{
	return count_of_worker(EVENT_RING_HANDED_OFF);
}

SEC("tp_btf/io_uring_cqe_overflow")
int BPF_PROG(io_uring_cqe_overflow__0)
{
	return count_of_worker(EVENT_RING_OVERFLOW);
}

SEC("tp_btf/io_uring_task_work_run")
int BPF_PROG(io_uring_task_work_run__0)
{
	return count_of_worker(EVENT_RING_TASK_WORK);
}

SEC("tp_btf/io_uring_local_work_run")
int BPF_PROG(io_uring_local_work_run__0)
{
	return count_of_worker(EVENT_RING_TASK_WORK);
}
