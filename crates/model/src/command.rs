//! Parser of a command that finds the program which runs in the end: `env`, `nice`, a shell and others like them only
//! start it.

/// A program that starts another one.
struct Wrapper {
    name: &'static str,
    /// Its options whose value is the next word. Other options are one word.
    valued: &'static [&'static str],
    /// How many words stand between its options and the command.
    operands: usize,
    syntax: Syntax,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// Options, operands, command.
    Plain,
    /// Variables stand before the command, too.
    Variables,
    /// Numbers stand before the command, and may be left out.
    Numbers,
    /// The first word says what it does.
    Named(&'static str),
    /// The command follows after `--`.
    AfterDashes,
}

const fn wrapper(name: &'static str, valued: &'static [&'static str]) -> Wrapper {
    Wrapper { name, valued, operands: 0, syntax: Syntax::Plain }
}

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        syntax: Syntax::Variables,
        ..wrapper("env", &["-u", "--unset", "-C", "--chdir", "-a", "--argv0"])
    },
    wrapper("nice", &["-n", "--adjustment"]),
    wrapper("ionice", &["-c", "--class", "-n", "--classdata"]),
    wrapper("nohup", &[]),
    wrapper("setsid", &[]),
    wrapper("catchsegv", &[]),
    wrapper("gamemoderun", &[]),
    wrapper("mangohud", &[]),
    wrapper("prime-run", &[]),
    wrapper("stdbuf", &["-i", "--input", "-o", "--output", "-e", "--error"]),
    wrapper("time", &["-f", "--format", "-o", "--output"]),
    wrapper(
        "strace",
        &[
            "-a", "-b", "-e", "-E", "-I", "-o", "-O", "-p", "-P", "-s", "-S", "-u", "-U", "-X", "--trace",
            "--output",
        ],
    ),
    Wrapper { operands: 1, ..wrapper("taskset", &[]) },
    Wrapper { operands: 1, ..wrapper("timeout", &["-k", "--kill-after", "-s", "--signal"]) },
    Wrapper {
        syntax: Syntax::Numbers,
        ..wrapper("chrt", &["-T", "--sched-runtime", "-P", "--sched-period", "-D", "--sched-deadline"])
    },
    Wrapper {
        syntax: Syntax::Named("run"),
        ..wrapper(
            "vkstash",
            &[
                "--dir",
                "--base",
                "--remote",
                "--remote-key",
                "--remote-seconds",
                "--driver-limits",
                "--translator-caches",
                "--library",
            ],
        )
    },
    Wrapper { syntax: Syntax::AfterDashes, ..wrapper("gamescope", &[]) },
    Wrapper { syntax: Syntax::AfterDashes, ..wrapper("reaper", &[]) },
    Wrapper { syntax: Syntax::AfterDashes, ..wrapper("steam-launch-wrapper", &[]) },
    Wrapper { syntax: Syntax::AfterDashes, ..wrapper("_v2-entry-point", &[]) },
];

/// glibc's loader and musl's, started as a program.
const LOADER: Wrapper = wrapper(
    "ld.so",
    &[
        "--library-path",
        "--inhibit-rpath",
        "--audit",
        "--preload",
        "--argv0",
        "--glibc-hwcaps-prepend",
        "--glibc-hwcaps-mask",
    ],
);

const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "zsh", "ksh"];

/// The word that names the program which a command of these words runs in the end: the first one that ends in `.exe`,
/// whatever starts it. Without one, programs that only start another one are followed as far as their arguments are
/// understood: a shell whose text is more than one simple command, for instance, is named itself. Empty: there are no
/// words.
pub fn program<'a>(words: &[&'a [u8]]) -> &'a [u8] {
    if let Some(exe) = words.iter().find(|word| is_exe(word)) {
        return exe;
    }
    let mut words = words.to_owned();
    // Each turn takes a word away.
    loop {
        let Some(&first) = words.first() else { return &[] };
        match started(file_name(first), words.get(1..).unwrap_or_default()) {
            Some(command) if !command.is_empty() => words = command,
            _ => return first,
        }
    }
}

/// Whether that names a program of Windows.
pub fn is_exe(word: &[u8]) -> bool {
    word.last_chunk::<4>().is_some_and(|end| end.eq_ignore_ascii_case(b".exe"))
}

/// The command that the program of this name starts.
fn started<'a>(name: &[u8], rest: &[&'a [u8]]) -> Option<Vec<&'a [u8]>> {
    if SHELLS.iter().any(|shell| shell.as_bytes() == name) {
        return of_shell(rest);
    }
    let is_loader =
        [b"ld-linux".as_slice(), b"ld-musl", b"ld.so"].iter().any(|start| name.starts_with(start));
    let known = || WRAPPERS.iter().find(|wrapper| wrapper.name.as_bytes() == name);
    let wrapper = if is_loader { &LOADER } else { known()? };
    let rest = match wrapper.syntax {
        Syntax::AfterDashes => {
            let dashes = rest.iter().position(|word| *word == b"--")?;
            return rest.get(dashes + 1..).map(ToOwned::to_owned);
        }
        Syntax::Named(wanted) => rest.strip_prefix(&[wanted.as_bytes()])?,
        Syntax::Plain | Syntax::Variables | Syntax::Numbers => rest,
    };
    let rest = after_options(rest, wrapper.valued).get(wrapper.operands..)?;
    let is_before = |word: &[u8]| match wrapper.syntax {
        Syntax::Variables => is_variable(word),
        Syntax::Numbers => word.iter().all(u8::is_ascii_digit),
        Syntax::Plain | Syntax::Named(_) | Syntax::AfterDashes => false,
    };
    let begins = rest.iter().position(|word| !is_before(word))?;
    rest.get(begins..).map(ToOwned::to_owned)
}

/// What follows on options.
fn after_options<'s, 'a>(mut words: &'s [&'a [u8]], valued: &[&str]) -> &'s [&'a [u8]] {
    while let Some((word, rest)) = words.split_first() {
        if *word == b"--" {
            return rest;
        }
        if !word.starts_with(b"-") {
            break;
        }
        let has_value = valued.iter().any(|name| name.as_bytes() == *word);
        words = rest.get(usize::from(has_value)..).unwrap_or_default();
    }
    words
}

/// Of a shell's arguments: `-c` and a text, or a script, which is a program of its own.
fn of_shell<'a>(mut words: &[&'a [u8]]) -> Option<Vec<&'a [u8]>> {
    let mut is_text = false;
    while let Some((word, rest)) = words.split_first() {
        if !word.starts_with(b"-") && !word.starts_with(b"+") {
            let [script, ..] = words else { return None };
            return if is_text { simple(script) } else { Some([*script].into()) };
        }
        is_text |= word.starts_with(b"-") && !word.starts_with(b"--") && word.contains(&b'c');
        let has_value = [b"-o".as_slice(), b"+o", b"-O", b"+O", b"--rcfile", b"--init-file"].contains(word);
        words = rest.get(usize::from(has_value)..).unwrap_or_default();
    }
    None
}

/// The words of a shell's text that is one simple command without quotes and expansions.
fn simple(text: &[u8]) -> Option<Vec<&[u8]>> {
    if text.iter().any(|byte| b"|&;<>()$`\\\"'*?[]#~{}!\n\r".contains(byte)) {
        return None;
    }
    let words = text.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    let mut words: Vec<_> = words.skip_while(|word| is_variable(word)).collect();
    if words.first() == Some(&b"exec".as_slice()) {
        words.remove(0);
    }
    Some(words)
}

/// `NAME=VALUE`.
fn is_variable(word: &[u8]) -> bool {
    let name = word.split(|&byte| byte == b'=').next().unwrap_or_default();
    let is_name = name.iter().all(|&byte| byte == b'_' || byte.is_ascii_alphanumeric());
    is_name && !name.is_empty() && name.len() < word.len()
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a command whose words are separated by `|`.
    fn of(line: &str) -> &str {
        let words: Vec<_> = line.split('|').map(str::as_bytes).collect();
        std::str::from_utf8(program(&words)).unwrap()
    }

    #[test]
    fn what_only_starts_a_program_is_passed_over() {
        for line in [
            "X",
            "nice|X|-n|5",
            "nice|-n|5|X",
            "nice|-5|X",
            "/usr/bin/nice|--adjustment=5|/usr/bin/nice|X",
            "env|X|A=b",
            "env|-i|-u|HOME|A=b|_c2=|X",
            "env|--|A=b|X",
            "setsid|--wait|X",
            "nohup|X",
            "ionice|-c|3|X",
            "ionice|-c2|-n7|X",
            "taskset|-c|0,2|X",
            "taskset|f0|X",
            "chrt|--idle|0|X",
            "chrt|-b|X",
            "chrt|-T|1000|-d|0|X",
            "stdbuf|-o|L|-e0|X",
            "timeout|-k|5|10m|X",
            "timeout|--signal=INT|1|X",
            "time|-f|%e|X",
            "gamemoderun|mangohud|--dlsym|X",
            "strace|-ff|-o|out|-e|trace=%file|X|-o|Y",
            "gamescope|-W|1920|-f|--|gamemoderun|X",
            "reaper|SteamLaunch|AppId=1|--|steam-launch-wrapper|--|_v2-entry-point|--verb=run|--|X",
            "vkstash|run|X",
            "/opt/bin/vkstash|run|-q|--dir|/s|--base=/b|--remote-seconds|3|--|env|A=b|X",
            "/lib64/ld-linux-x86-64.so.2|--library-path|/l|X|Y",
            "/lib/ld-linux.so.2|X",
            "ld-musl-x86_64.so.1|--preload|p.so|--|X",
            "sh|X|-c|Y",
            "bash|-e|--norc|-o|pipefail|X",
            "sh|-c|X",
            "sh|-c| exec  X\t--arg a=b",
            "bash|-lc|A=b B=c exec nice -n 5 X|name",
            "sh|-e|-c|timeout 5 X",
        ] {
            assert_eq!(of(line), "X", "{line}");
        }
    }

    #[test]
    fn a_program_of_windows_is_the_program_whatever_starts_it() {
        for line in
            ["wine|a/Game.exe|X.exe", "_v2-entry-point|--verb=run|--|proton|run|a/Game.exe", "a/Game.exe"]
        {
            assert_eq!(of(line), "a/Game.exe", "{line}");
        }
        assert_eq!(of(r"nice|wine|C:\\a\\GAME.EXE"), r"C:\\a\\GAME.EXE");
    }

    #[test]
    fn what_cannot_be_told_is_the_program_of_which_it_cannot() {
        for (line, expected) in [
            ("", ""),
            ("env", "env"),
            ("env|A=b", "env"),
            ("nice|-n", "nice"),
            ("timeout|5", "timeout"),
            ("taskset", "taskset"),
            ("gamescope|X", "gamescope"),
            ("vkstash|stats|X", "vkstash"),
            ("sh", "sh"),
            ("sh|-c", "sh"),
            ("sh|-c|", "sh"),
            ("sh|-c|exec", "sh"),
            ("/bin/sh|-c|A=b", "/bin/sh"),
            ("nice|sh|-c|X; Y", "sh"),
            ("environment|X", "environment"),
            ("=|X", "="),
        ] {
            assert_eq!(of(line), expected, "{line}");
        }
        for more in [
            "X | Y", "X && Y", "X > f", "$X", "\"X\"", "'X'", "X `Y`", "X\nY", "X *", "X & ", "{ X", "~/X",
            "\\X",
        ] {
            let words: [&[u8]; 3] = [b"sh", b"-c", more.as_bytes()];
            assert_eq!(program(&words), b"sh", "{more}");
        }
    }
}
