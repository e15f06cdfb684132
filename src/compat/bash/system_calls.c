/* The system calls that a run may not make: seccomp's filter, in which each call that neither namespaces nor
 * Landlock covers is refused, or does nothing. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "base/array.h"
#include "compat/bash/shut_in.h"

#if defined(__x86_64__)
enum { ARCHITECTURE = AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { ARCHITECTURE = AUDIT_ARCH_AARCH64 };
#elif defined(__riscv) && __riscv_xlen == 64
enum { ARCHITECTURE = AUDIT_ARCH_RISCV64 };
#elif defined(__powerpc64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { ARCHITECTURE = AUDIT_ARCH_PPC64LE };
#else
enum { ARCHITECTURE = 0 }; /* no filter can be written: nothing is run */
#endif

/* Numbers that all of these machines share, and older headers lack. */
enum {
    IO_URING_SETUP = 425,
    IO_URING_ENTER,
    IO_URING_REGISTER,
    OPEN_TREE = 428,
    MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT, FSPICK,
    PIDFD_SEND_SIGNAL = 424,
    CLONE3 = 435,
    PIDFD_GETFD = 438,
    PROCESS_MADVISE = 440,
    MOUNT_SETATTR = 442,
    MEMFD_SECRET = 447,
    FCHMODAT2 = 452,
    SETXATTRAT = 463,
    REMOVEXATTRAT = 466
};

/* Sockets by path reach daemons past every namespace and past Landlock; the others have had holes, or act on
 * what lies outside the run. */
static const int refused[] = {
    SYS_socket, SYS_socketpair, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_mount,
    SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns, SYS_bpf, SYS_keyctl, SYS_add_key,
    SYS_request_key, SYS_perf_event_open, SYS_userfaultfd, SYS_shmget, SYS_msgget, SYS_semget, SYS_mq_open,
    SYS_quotactl, SYS_reboot, SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module,
    SYS_swapon, SYS_swapoff, SYS_acct, SYS_syslog, SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime,
    SYS_adjtimex, SYS_sethostname, SYS_setdomainname, SYS_personality, SYS_name_to_handle_at,
    SYS_open_by_handle_at, SYS_fanotify_init, SYS_lookup_dcookie, SYS_vhangup, IO_URING_SETUP,
    IO_URING_ENTER, IO_URING_REGISTER, OPEN_TREE, MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT, FSPICK,
    PIDFD_GETFD, PROCESS_MADVISE, MOUNT_SETATTR, MEMFD_SECRET,
#ifdef SYS_iopl
    SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#endif
};
/* Landlock does not see these. They report success, since `touch` and `cp` end with a failure otherwise. */
static const int pretended[] = {
    SYS_fchmod, SYS_fchmodat, FCHMODAT2, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_setxattr,
    SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, SETXATTRAT,
    REMOVEXATTRAT, SYS_setpriority, SYS_ioprio_set, SYS_sched_setaffinity, SYS_sched_setscheduler,
    SYS_sched_setparam, SYS_sched_setattr,
#ifdef SYS_chmod
    SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
};
/* Of these signals a process may send none where others than the run's could be reached. */
static const int signals[] = { SYS_kill, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
                               PIDFD_SEND_SIGNAL };

/* ---- the filter ---- */

enum { SUCCEED = SECCOMP_RET_ERRNO, REFUSE = SUCCEED | EPERM, LACKING = SUCCEED | ENOSYS };

typedef struct {
    struct sock_filter step[2 * (COUNT(refused) + COUNT(pretended) + COUNT(signals)) + 60];
    int steps;
} Filter;

static void add(Filter *f, int code, int then, int otherwise, uint32_t value)
{
    CHECK(f->steps < COUNT(f->step), "a filter of %d steps", f->steps);
    f->step[f->steps++] =
        (struct sock_filter){ (uint16_t)code, (uint8_t)then, (uint8_t)otherwise, value };
}

static void load(Filter *f, size_t offset)
{
    add(f, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

static void answer(Filter *f, const int *call, int calls, uint32_t what)
{
    for (int i = 0; i < calls; i++) {
        add(f, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)call[i]);
        add(f, BPF_RET | BPF_K, 0, 0, what);
    }
}

/* Refuses a call where its argument passes a test (BPF_JEQ, BPF_JSET), or where it does not. */
static void refuse_where(Filter *f, int call, int argument, int test, uint32_t value, bool passes)
{
    add(f, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, (uint32_t)call);
    load(f, offsetof(struct seccomp_data, args) + 8 * (size_t)argument);
    add(f, BPF_JMP | test | BPF_K, !passes, passes, value);
    add(f, BPF_RET | BPF_K, 0, 0, REFUSE);
    load(f, offsetof(struct seccomp_data, nr));
}

bool keeper_forbid_calls(bool pretend, bool kills)
{
    Filter f = { .steps = 0 };
    load(&f, offsetof(struct seccomp_data, arch));
    add(&f, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCHITECTURE);
    add(&f, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
    load(&f, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
    add(&f, BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0x40000000); /* x32: the same calls under other numbers */
    add(&f, BPF_RET | BPF_K, 0, 0, LACKING);
#endif
    answer(&f, (const int[]){ CLONE3 }, 1, LACKING); /* its flags are in memory; libraries then use clone */
    refuse_where(&f, SYS_clone, 0, BPF_JSET, NAMESPACES_ALL, true);
    refuse_where(&f, SYS_prlimit64, 0, BPF_JEQ, 0, false);   /* of this process only */
    refuse_where(&f, SYS_ioctl, 1, BPF_JEQ, 0x5412, true);   /* TIOCSTI and TIOCLINUX type into a terminal */
    refuse_where(&f, SYS_ioctl, 1, BPF_JEQ, 0x541c, true);
    answer(&f, refused, COUNT(refused), REFUSE);
    if (!kills) answer(&f, signals, COUNT(signals), REFUSE);
    if (pretend) answer(&f, pretended, COUNT(pretended), SUCCEED);
    add(&f, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { (unsigned short)f.steps, f.step };
    return ARCHITECTURE != 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
