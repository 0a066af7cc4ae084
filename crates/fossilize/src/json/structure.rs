//! Describes structures. From one description come the code that reads, the code that writes, the values for tests, and
//! a check by the compiler that no member was forgotten.
//!
//! A description is a flavour, the type, and its members in the order in which they are written:
//!
//! ```text
//! structure! { chained vk::SubpassDescription2<'static> {
//!     "flags": value flags,
//!     "colorAttachments": list p_color_attachments => color_attachment_count,
//! } }
//! ```
//!
//! | flavour | the structure |
//! |---|---|
//! | `plain` | has no sType |
//! | `marked` | has none, but pointers |
//! | `chained` | starts with sType and pNext, and its JSON has a member `pNext` |
//! | `lone` | starts with sType and pNext, and Fossilize leaves its chain out |
//! | `link` | stands in chains only |
//! | `newer` | the same, declared in this repository |
//!
//! | kind | the member |
//! |---|---|
//! | `value` | a number, handle, array or structure |
//! | `mode` | an enumeration that is declared as a number; Fossilize reads it as unsigned |
//! | `optional` | the same; zero where it is missing |
//! | `tagged` | a structure with sType; zero where it is missing |
//! | `list p => n` | an array that tells its length |
//! | `sized p [n]` | an array that may be NULL; `n` counts its elements and is a member, too |
//! | `counted p [n]` | the same; NULL where the state is dynamic |
//! | `blank p => n` | an array that tells its length, and that is NULL where the state is dynamic |
//! | `mask p [n]` | a sample mask for `n` samples |
//! | `pointer` | a structure or number that may be NULL |
//! | `string`, `name` | a name; `name` may be NULL |
//! | `bytes p [n]` | `n` bytes |
//! | `entries p => n [m]` | entries that lie within `m` bytes of data |
//! | `module` | the handle of a shader module, which must not be null |
//! | `swizzles` | a component mapping that is an array |
//! | `words` | a colour as four words |
//! | `range` | a range of depths that may be NULL |
//! | `absent` | a pointer that Fossilize leaves out and that must be NULL |

/// Describes a structure.
macro_rules! structure {
    ($flavour:ident $type:ty {
        $($name:literal: $kind:ident $field:ident $(=> $count:ident)? $([$by:ident])?,)*
    }) => {
        impl $crate::json::form::Members for $type {
            const NAMES: &'static [&'static str] = &[$($name),*];

            #[allow(unused_variables, reason = "a structure may be without members")]
            fn read_members(
                object: &$crate::json::document::Object,
                reader: &mut $crate::json::reader::Reader,
            ) -> Result<Self, $crate::json::error::ParseError> {
                let mut made = $crate::json::structure::blank!($flavour);
                $($crate::json::structure::read_member!(
                    made, object, reader, $name, $kind $field $(=> $count)? $([$by])?
                );)*
                Ok(made)
            }

            #[allow(unused_unsafe, reason = "not each kind follows a pointer")]
            unsafe fn write_members(
                &self,
                writer: &mut $crate::json::writer::Writer,
            ) -> Result<(), $crate::json::error::WriteError> {
                $crate::json::structure::complete!($flavour self { $($field $($count)?)* });
                $(
                    // SAFETY: pointers are NULL or valid for what their count says (the # Safety section of `Json`).
                    unsafe {
                        $crate::json::structure::write_member!(
                            self, writer, $name, $kind $field $(=> $count)? $([$by])?
                        );
                    }
                )*
                Ok(())
            }

            #[cfg(test)]
            fn sample_members(samples: &mut $crate::json::samples::Samples) -> Self {
                let mut made = $crate::json::structure::blank!($flavour);
                $($crate::json::structure_samples::sample_member!(
                    made, samples, $kind $field $(=> $count)? $([$by])?
                );)*
                made
            }
        }
        $crate::json::structure_form::as_json!($flavour $type);
    };
}

/// A structure of which only sType is set.
macro_rules! blank {
    (newer) => {{
        // SAFETY: numbers and pointers, which may all be zero.
        let mut made: Self = unsafe { std::mem::zeroed() };
        made.s_type = <Self as ash::vk::TaggedStructure>::STRUCTURE_TYPE;
        made
    }};
    ($flavour:ident) => {
        Self::default()
    };
}

/// Does not compile where a member is missing from a description.
macro_rules! complete {
    (plain $self:ident { $($field:ident)* }) => {
        let Self { $($field: _),* } = $self;
    };
    (marked $self:ident { $($field:ident)* }) => {
        let Self { _marker: _, $($field: _),* } = $self;
    };
    (newer $self:ident { $($field:ident)* }) => {
        let Self { s_type: _, p_next: _, $($field: _),* } = $self;
    };
    ($flavour:ident $self:ident { $($field:ident)* }) => {
        let Self { s_type: _, p_next: _, _marker: _, $($field: _),* } = $self;
    };
}

macro_rules! read_member {
    ($made:ident, $object:ident, $reader:ident, $name:literal, value $field:ident) => {
        $made.$field = $crate::json::members::read($object, $name, $reader)?;
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, mode $field:ident) => {
        $made.$field = $crate::json::members::read::<u32>($object, $name, $reader)? as i32;
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, module $field:ident) => {
        $made.$field = $crate::json::members::read($object, $name, $reader)?;
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, optional $field:ident) => {
        if let Some(value) = $crate::json::members::read_optional($object, $name, $reader)? {
            $made.$field = value;
        }
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, tagged $field:ident) => {
        if let Some(value) = $crate::json::members::read_tagged($object, $name, $reader)? {
            $made.$field = value;
        }
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, $list:ident $field:ident => $count:ident) => {
        ($made.$count, $made.$field) = $crate::json::members::read_list($object, $name, $reader)?;
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, sized $field:ident [$by:ident]) => {
        $made.$field = $crate::json::members::read_sized($object, $name, $made.$by.into(), $reader)?;
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, counted $field:ident [$by:ident]) => {
        $made.$field = $crate::json::members::read_counted($object, $name, $made.$by, $reader)?;
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, mask $field:ident [$by:ident]) => {
        let words = u64::from($made.$by.as_raw()).div_ceil(32);
        $made.$field = $crate::json::members::read_sized($object, $name, words, $reader)?;
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, bytes $field:ident [$by:ident]) => {
        $made.$field = $crate::json::members::read_bytes($object, $name, $made.$by, $reader)?;
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, entries $field:ident => $count:ident [$by:ident]) => {
        ($made.$count, $made.$field) =
            $crate::json::members::read_entries($object, $name, $made.$by, $reader)?;
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, pointer $field:ident) => {
        $made.$field = $crate::json::members::read_pointer($object, $name, $reader)?;
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, string $field:ident) => {
        $made.$field = $crate::json::members::read_string($object, $name, $reader)?;
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, name $field:ident) => {
        $made.$field = $crate::json::members::read_name($object, $name, $reader)?;
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, swizzles $field:ident) => {
        let [r, g, b, a] = $crate::json::members::read($object, $name, $reader)?;
        $made.$field = ash::vk::ComponentMapping { r, g, b, a };
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, words $field:ident) => {
        let uint32 = $crate::json::members::read($object, $name, $reader)?;
        $made.$field = ash::vk::ClearColorValue { uint32 };
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, range $field:ident) => {
        $made.$field =
            $crate::json::members::read_pointer::<DepthClampRange>($object, $name, $reader)?.cast();
    };
    ($made:ident, $object:ident, $reader:ident, $name:literal, absent $field:ident) => {
        if $object.contains($name) {
            let unknown = $crate::json::error::Problem::UnknownMember;
            return Err($crate::json::error::ParseError::new(unknown).inside($name));
        }
    };
}

macro_rules! write_member {
    ($self:ident, $writer:ident, $name:literal, value $field:ident) => {
        $crate::json::members::write($writer, $name, &$self.$field)?;
    };
    ($self:ident, $writer:ident, $name:literal, mode $field:ident) => {
        $crate::json::members::write($writer, $name, &($self.$field as u32))?;
    };
    ($self:ident, $writer:ident, $name:literal, optional $field:ident) => {
        $crate::json::members::write($writer, $name, &$self.$field)?;
    };
    ($self:ident, $writer:ident, $name:literal, module $field:ident) => {
        if $self.$field == ash::vk::ShaderModule::null() {
            return Err($crate::json::error::WriteError::Null($name));
        }
        $crate::json::members::write($writer, $name, &$self.$field)?;
    };
    ($self:ident, $writer:ident, $name:literal, tagged $field:ident) => {
        let s_type = $self.$field.s_type.as_raw();
        $crate::json::members::write_tagged($writer, $name, &$self.$field, s_type)?;
    };
    ($self:ident, $writer:ident, $name:literal, list $field:ident => $count:ident) => {
        $crate::json::members::write_list($writer, $name, $self.$field, $self.$count.into())?;
    };
    ($self:ident, $writer:ident, $name:literal, blank $field:ident => $count:ident) => {
        if $self.$field.is_null() && $self.$count <= $crate::json::members::MOST_WITHOUT_ARRAY {
            // The length is all that counts, and an array tells it.
            let blank = vec![Default::default(); $self.$count as usize];
            let first = $crate::json::structure::same_type($self.$field, blank.as_ptr());
            $crate::json::members::write_list($writer, $name, first, $self.$count.into())?;
        } else {
            $crate::json::members::write_list($writer, $name, $self.$field, $self.$count.into())?;
        }
    };
    ($self:ident, $writer:ident, $name:literal, sized $field:ident [$by:ident]) => {
        $crate::json::members::write_sized($writer, $name, $self.$field, $self.$by.into())?;
    };
    ($self:ident, $writer:ident, $name:literal, counted $field:ident [$by:ident]) => {
        $crate::json::members::write_counted($writer, $name, $self.$field, $self.$by)?;
    };
    ($self:ident, $writer:ident, $name:literal, mask $field:ident [$by:ident]) => {
        let words = u64::from($self.$by.as_raw()).div_ceil(32);
        $crate::json::members::write_sized($writer, $name, $self.$field, words)?;
    };
    ($self:ident, $writer:ident, $name:literal, bytes $field:ident [$by:ident]) => {
        $crate::json::members::write_bytes($writer, $name, $self.$field, $self.$by)?;
    };
    ($self:ident, $writer:ident, $name:literal, entries $field:ident => $count:ident [$by:ident]) => {
        $crate::json::members::write_list($writer, $name, $self.$field, $self.$count.into())?;
    };
    ($self:ident, $writer:ident, $name:literal, pointer $field:ident) => {
        $crate::json::members::write_pointer($writer, $name, $self.$field)?;
    };
    ($self:ident, $writer:ident, $name:literal, string $field:ident) => {
        $crate::json::members::write_string($writer, $name, $self.$field)?;
    };
    ($self:ident, $writer:ident, $name:literal, name $field:ident) => {
        $crate::json::members::write_name($writer, $name, $self.$field)?;
    };
    ($self:ident, $writer:ident, $name:literal, swizzles $field:ident) => {
        let ash::vk::ComponentMapping { r, g, b, a } = $self.$field;
        $crate::json::members::write($writer, $name, &[r, g, b, a])?;
    };
    ($self:ident, $writer:ident, $name:literal, words $field:ident) => {
        // Each four words are a colour.
        $crate::json::members::write($writer, $name, &$self.$field.uint32)?;
    };
    ($self:ident, $writer:ident, $name:literal, range $field:ident) => {
        $crate::json::members::write_pointer::<DepthClampRange>($writer, $name, $self.$field.cast())?;
    };
    ($self:ident, $writer:ident, $name:literal, absent $field:ident) => {
        if !$self.$field.is_null() {
            return Err($crate::json::error::WriteError::Member($name));
        }
    };
}

/// The second pointer. The first one says of which type it is.
pub fn same_type<T>(_: *const T, pointer: *const T) -> *const T {
    pointer
}

pub(crate) use {blank, complete, read_member, structure, write_member};
