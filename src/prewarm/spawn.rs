//! Starts a process beside the program that the program never notices: it is no child of the program, no signal tells
//! of it, and it inherits neither descriptors nor handlers, masks and the working folder.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

/// Bytes of each stack: what runs on it makes system calls only.
const STACK: usize = 64 << 10;

/// What the new process runs.
pub struct Program {
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

/// Everything that is needed between clone and exec, made before: nothing may be allocated there.
struct Prepared {
    path: *const c_char,
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    /// For the process that becomes the program.
    stack: *mut c_void,
}

impl Program {
    /// None: the path, an argument or a variable contains a zero byte.
    pub fn new(
        path: &[u8],
        arguments: impl Iterator<Item = Vec<u8>>,
        environment: impl Iterator<Item = Vec<u8>>,
    ) -> Option<Program> {
        let list = |texts: &mut dyn Iterator<Item = Vec<u8>>| {
            texts.map(CString::new).collect::<Result<Vec<_>, _>>().ok()
        };
        Some(Program {
            path: CString::new(path).ok()?,
            arguments: list(&mut arguments.into_iter())?,
            environment: list(&mut environment.into_iter())?,
        })
    }

    /// Starts it. False: the system refuses to. Whether the file could be executed is not known.
    ///
    /// This thread clones a process without a termination signal (so that the program gets no SIGCHLD, and its
    /// `waitpid(-1)` does not see it), which clones the one that becomes the program and ends. The threads of the
    /// program go on meanwhile. Unlike `fork`, this neither copies page tables nor runs handlers of pthread_atfork.
    pub fn start(&self) -> bool {
        let pointers = |texts: &[CString]| -> Vec<*const c_char> {
            texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
        };
        let (mut outer, mut inner) = (Stack::new(), Stack::new());
        let mut prepared = Prepared {
            path: self.path.as_ptr(),
            arguments: pointers(&self.arguments),
            environment: pointers(&self.environment),
            stack: inner.top(),
        };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK;
        let argument = (&raw mut prepared).cast::<c_void>();
        // SAFETY: the child runs `between` on a stack of its own while this thread waits (CLONE_VFORK); what it reads
        // lives on this stack frame until then. It is waited for here, and is nobody else's child.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigfillset(&mut all);
            // No handler of the program may run in the child, which shares its memory.
            if libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) != 0 {
                return false;
            }
            let child = libc::clone(between, outer.top(), flags, argument);
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
            if child < 0 {
                return false;
            }
            let mut status = 0;
            while libc::waitpid(child, &mut status, libc::__WALL) < 0
                && *libc::__errno_location() == libc::EINTR
            {}
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}

/// A stack for a process that shares the memory.
struct Stack(Vec<u128>);

impl Stack {
    fn new() -> Stack {
        Stack(vec![0; STACK / 16])
    }

    /// Its upper end: stacks grow down on every architecture that the layer is built for.
    fn top(&mut self) -> *mut c_void {
        self.0.as_mut_ptr_range().end.cast()
    }
}

/// The process in between: its end makes the other one an orphan, which the system adopts.
extern "C" fn between(argument: *mut c_void) -> c_int {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: `argument` is the `Prepared` of `start`, which waits for this process. The new one runs on a stack of its
    // own.
    let child = unsafe {
        let prepared = argument.cast::<Prepared>();
        libc::clone(become_program, (*prepared).stack, flags, argument)
    };
    c_int::from(child < 0)
}

/// The process that becomes the program. Only async-signal-safe calls: other threads of the program may hold any lock.
extern "C" fn become_program(argument: *mut c_void) -> c_int {
    // SAFETY: `argument` is the `Prepared` of `start`, whose thread waits until this process executes a file or ends;
    // the lists end with NULL. Descriptors, dispositions, mask, session and folder belong to this process alone
    // (neither CLONE_FILES nor CLONE_SIGHAND nor CLONE_FS).
    unsafe {
        let prepared = argument.cast::<Prepared>();
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for stream in 0..3 {
            libc::dup2(null, stream);
        }
        if libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) != 0 {
            // The kernel is older than close_range.
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
            let most = c_int::try_from(limit.rlim_cur.min(65536)).unwrap_or(65536);
            for descriptor in 3..most {
                libc::close(descriptor);
            }
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        libc::execve((*prepared).path, (*prepared).arguments.as_ptr(), (*prepared).environment.as_ptr());
        libc::_exit(127)
    }
}
