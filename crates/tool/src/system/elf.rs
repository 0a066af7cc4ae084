//! Reads from the first bytes of a shared library which architecture it is for.
//!
//! Three fields in twenty bytes say it, so no crate that reads whole libraries (object, goblin) is needed. Manifests
//! are named after the architecture, and tell the Vulkan loader the pointer width, so that a 32-bit program never
//! tries the 64-bit library.

use std::io::{self, Read as _};
use std::path::Path;

use crate::system::regular;

/// An architecture that the layer can be built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arch {
    /// Rust's name for it, used in the manifest's file name.
    pub(crate) name: &'static str,
    /// Width of a pointer in bits, as the manifest's `library_arch` wants it.
    pub(crate) bits: u8,
    /// Folders below a prefix in which distributions keep libraries of this architecture.
    pub(crate) folders: &'static [&'static str],
    machine: u16,
}

/// The architectures that are known; each pair of width and machine is unique.
const ARCHES: &[Arch] = &[
    Arch { name: "x86_64", bits: 64, folders: &["lib/x86_64-linux-gnu", "lib64"], machine: 62 },
    Arch { name: "x86", bits: 32, folders: &["lib/i386-linux-gnu", "lib32"], machine: 3 },
    Arch { name: "aarch64", bits: 64, folders: &["lib/aarch64-linux-gnu", "lib64"], machine: 183 },
    Arch { name: "arm", bits: 32, folders: &["lib/arm-linux-gnueabihf"], machine: 40 },
    Arch { name: "riscv64", bits: 64, folders: &["lib/riscv64-linux-gnu", "lib64"], machine: 243 },
    Arch { name: "powerpc64", bits: 64, folders: &["lib/powerpc64le-linux-gnu", "lib64"], machine: 21 },
    Arch { name: "loongarch64", bits: 64, folders: &["lib/loongarch64-linux-gnu", "lib64"], machine: 258 },
];

impl Arch {
    /// The architecture that this tool was built for.
    pub(crate) fn own() -> Option<&'static Arch> {
        ARCHES.iter().find(|arch| arch.name == std::env::consts::ARCH)
    }

    /// The 32-bit sibling whose programs run on the same machine.
    pub(crate) fn sibling(&self) -> Option<&'static Arch> {
        let name = match self.name {
            "x86_64" => "x86",
            "aarch64" => "arm",
            _ => return None,
        };
        ARCHES.iter().find(|arch| arch.name == name)
    }

    /// The folder in which cargo has what it builds for this architecture on one whose sibling it is.
    pub(crate) fn cross_folder(&self) -> Option<&'static str> {
        match self.name {
            "x86" => Some("i686-unknown-linux-gnu"),
            "arm" => Some("armv7-unknown-linux-gnueabihf"),
            _ => None,
        }
    }
}

/// Why a file is not a library that the loader could load.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ElfError {
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    #[error("it is not a shared library")]
    NotShared,
    #[error("it is a library for an unknown architecture (ELF machine {0})")]
    UnknownMachine(u16),
}

/// The architecture of the shared library at `path`.
pub(crate) fn arch_of(path: &Path) -> Result<&'static Arch, ElfError> {
    let mut head = [0_u8; 20];
    match regular::open(path)?.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(ElfError::NotShared),
        other => other?,
    }
    parse(&head)
}

fn parse(head: &[u8; 20]) -> Result<&'static Arch, ElfError> {
    const SHARED_OBJECT: u16 = 3;
    if !head.starts_with(b"\x7fELF") {
        return Err(ElfError::NotShared);
    }
    let number: fn([u8; 2]) -> u16 = if head[5] == 2 { u16::from_be_bytes } else { u16::from_le_bytes };
    if number([head[16], head[17]]) != SHARED_OBJECT {
        return Err(ElfError::NotShared);
    }
    let machine = number([head[18], head[19]]);
    let bits = if head[4] == 2 { 64 } else { 32 };
    ARCHES
        .iter()
        .find(|arch| arch.machine == machine && arch.bits == bits)
        .ok_or(ElfError::UnknownMachine(machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(class: u8, kind: u8, machine: u8) -> [u8; 20] {
        let mut head = [0; 20];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        head[16] = kind;
        head[18] = machine;
        head
    }

    #[test]
    fn the_width_and_the_machine_decide() {
        assert_eq!(parse(&head(2, 3, 62)).unwrap().name, "x86_64");
        assert_eq!(parse(&head(1, 3, 3)).unwrap().name, "x86");
        // The x32 ABI: the 64-bit machine with 32-bit pointers, for which the layer is not built.
        assert!(matches!(parse(&head(1, 3, 62)), Err(ElfError::UnknownMachine(62))));
    }

    #[test]
    fn an_object_file_and_a_text_are_not_libraries() {
        assert!(matches!(parse(&head(2, 1, 62)), Err(ElfError::NotShared)));
        assert!(matches!(
            parse(b"#!/bin/sh\nexit 1....\n"[..20].try_into().unwrap()),
            Err(ElfError::NotShared)
        ));
    }

    #[test]
    fn this_architecture_is_known() {
        assert_eq!(arch_of(&std::env::current_exe().unwrap()).unwrap().name, Arch::own().unwrap().name);
    }
}
