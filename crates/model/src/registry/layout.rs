//! The sizes of structures, from their members.

use ash::vk;

/// A member of a structure, as far as its size and its contents matter.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// VkBool32.
    Switch,
    /// A number, an enumerant or flags of one byte.
    Byte,
    /// A number, an enumerant or flags of two bytes.
    Half,
    /// A number, an enumerant or flags of four bytes.
    Word,
    /// A number, an enumerant or flags of eight bytes.
    Long,
    /// size_t.
    Size,
    /// A pointer, or a dispatchable handle.
    Pointer,
    /// A non-dispatchable handle.
    Handle,
    /// An array.
    Many(usize, &'static Part),
    /// A structure.
    All(&'static [Part]),
    /// A union.
    OneOf(&'static [Part]),
}

/// The place that a member takes.
#[derive(Clone, Copy)]
struct Place {
    size: usize,
    alignment: usize,
    /// The member's bytes without padding, where all of it are numbers.
    numbers: Option<usize>,
}

impl Place {
    const fn of<T>() -> Place {
        Place { size: size_of::<T>(), alignment: align_of::<T>(), numbers: None }
    }

    const fn of_number<T>() -> Place {
        Place { numbers: Some(size_of::<T>()), ..Place::of::<T>() }
    }
}

impl Part {
    const fn place(&self) -> Place {
        match self {
            Part::Byte => Place::of_number::<u8>(),
            Part::Half => Place::of_number::<u16>(),
            Part::Switch | Part::Word => Place::of_number::<u32>(),
            Part::Long => Place::of_number::<u64>(),
            Part::Size => Place::of::<usize>(),
            Part::Pointer => Place::of::<*const u8>(),
            Part::Handle => Place::of::<u64>(),
            Part::Many(length, element) => {
                let Place { size, alignment, numbers } = element.place();
                let numbers = match numbers {
                    Some(bytes) if bytes == size => Some(bytes * *length),
                    _ => None,
                };
                Place { size: size * *length, alignment, numbers }
            }
            Part::All(parts) => placed(parts, 1),
            Part::OneOf(parts) => {
                let mut most = parts[0].place();
                let mut at = 1;
                while at < parts.len() {
                    let Place { size, alignment, numbers } = parts[at].place();
                    most.numbers = match (most.numbers, numbers) {
                        (Some(one), Some(other)) if one == other => most.numbers,
                        _ => None,
                    };
                    most.size = if size > most.size { size } else { most.size };
                    most.alignment = if alignment > most.alignment { alignment } else { most.alignment };
                    at += 1;
                }
                most.size = most.size.next_multiple_of(most.alignment);
                most
            }
        }
    }
}

/// Parts one behind the other, as C lays them out.
const fn placed(parts: &[Part], least_alignment: usize) -> Place {
    let (mut end, mut alignment, mut numbers) = (0, least_alignment, Some(0));
    let mut at = 0;
    while at < parts.len() {
        let part = parts[at].place();
        let begin = usize::next_multiple_of(end, part.alignment);
        numbers = match (numbers, part.numbers) {
            (Some(before), Some(bytes)) if before == begin => Some(before + bytes),
            _ => None,
        };
        end = begin + part.size;
        alignment = if part.alignment > alignment { part.alignment } else { alignment };
        at += 1;
    }
    Place { size: end.next_multiple_of(alignment), alignment, numbers }
}

/// One structure with an sType.
#[derive(Clone, Copy, Debug)]
pub struct Structure {
    /// The structure's name without "Vk".
    pub name: &'static str,
    /// The value of its sType.
    pub s_type: vk::StructureType,
    /// The size in bytes in this process.
    pub size: usize,
    /// How many VkBool32 it consists of; 0 where it holds something else.
    pub switches: usize,
    /// The bytes behind pNext that its members take, where all are numbers without padding between them.
    pub numbers: Option<usize>,
}

impl Structure {
    pub(super) const fn new(name: &'static str, s_type: i32, parts: &[Part]) -> Structure {
        let header = Place::of::<vk::BaseInStructure<'_>>();
        let members = placed(parts, header.alignment);
        let mut switches = 0;
        while switches < parts.len() && matches!(parts[switches], Part::Switch) {
            switches += 1;
        }
        Structure {
            name,
            s_type: vk::StructureType::from_raw(s_type),
            size: header.size + members.size,
            switches: if switches == parts.len() { switches } else { 0 },
            numbers: members.numbers,
        }
    }
}

/// The structure of this name, without "Vk".
pub const fn named(structures: &[Structure], name: &str) -> Option<Structure> {
    let mut at = 0;
    while at < structures.len() {
        if is_same(structures[at].name.as_bytes(), name.as_bytes()) {
            return Some(structures[at]);
        }
        at += 1;
    }
    None
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    // Names differ at their end more often than at their beginning.
    let mut at = one.len();
    while at > 0 {
        at -= 1;
        if one[at] != other[at] {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_as_c_lays_them_out() {
        use Part::*;
        let place = |parts: &[Part]| {
            let Place { size, alignment, numbers } = placed(parts, 1);
            (size, alignment, numbers)
        };
        assert_eq!(place(&[]), (0, 1, Some(0)));
        assert_eq!(place(&[Word, Half]), (8, 4, Some(6)));
        assert_eq!(place(&[Half, Word]), (8, 4, None));
        assert_eq!(place(&[Many(16, &Byte), All(&[Word, Word])]), (24, 4, Some(24)));
        assert_eq!(place(&[Word, OneOf(&[Many(3, &Word), Byte])]), (16, 4, None));
        assert_eq!(place(&[OneOf(&[Many(4, &Byte), Word])]), (4, 4, Some(4)));
        assert_eq!(place(&[Switch, Handle]).2, None);
    }
}
