"""The system calls that a program needs for its own work: a sandbox allows these with any arguments.

What a call may reach is decided by namespaces or Landlock, by the user and by the limits. syscall_filter.py
allows further calls with some arguments. A call in neither list is answered as by a kernel that lacks it.
"""

from __future__ import annotations

_FILES = """
access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2
fadvise64 fallocate fchdir fchmod fchmodat fchown fchownat fcntl fdatasync fgetxattr flistxattr flock
fremovexattr fstat fstatfs fsync ftruncate futimesat getcwd getdents getdents64 getxattr
getxattrat inotify_add_watch inotify_init inotify_init1 inotify_rm_watch lchown lgetxattr link linkat
listxattr listxattrat llistxattr lremovexattr lseek lstat mkdir mkdirat mknod mknodat newfstatat
open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat
readv removexattr rename renameat renameat2 rmdir sendfile splice stat statfs statx symlink
symlinkat sync sync_file_range syncfs tee truncate umask unlink unlinkat utime utimensat utimes vmsplice
write writev
"""
_MEMORY = """
brk get_mempolicy madvise map_shadow_stack mbind membarrier mincore mlock mlock2 mlockall mmap mprotect
mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect remap_file_pages
set_mempolicy set_mempolicy_home_node
"""
_PROCESSES = """
arch_prctl capget capset execve execveat exit exit_group fork futex futex_requeue futex_wait futex_waitv
futex_wake get_robust_list getcpu getegid geteuid getgid getgroups getpgid getpgrp getpid getppid
getpriority getresgid getresuid getrlimit getrusage getsid gettid getuid ioprio_get kill landlock_add_rule
landlock_create_ruleset landlock_restrict_self pause pidfd_open pidfd_send_signal restart_syscall rseq
rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
sched_getparam sched_getscheduler sched_rr_get_interval sched_yield seccomp set_robust_list
set_tid_address setfsgid setfsuid setgid setgroups setpgid setregid setresgid setresuid setreuid setrlimit
setsid setuid sigaltstack tgkill tkill vfork wait4 waitid
"""
_TIME = """
alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time
timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
timerfd_settime times
"""
_WAITING = """
epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 pipe pipe2 poll
ppoll pselect6 select signalfd signalfd4
"""
# Not io_setup and the like: the whole machine has 65,536 places for requests, which one program could take.
_SOCKETS = """
accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg
sendmsg sendto setsockopt shutdown socketpair
"""
_MACHINE = "getrandom sysinfo uname"

ALLOWED = frozenset(" ".join((_FILES, _MEMORY, _PROCESSES, _TIME, _WAITING, _SOCKETS, _MACHINE)).split())
