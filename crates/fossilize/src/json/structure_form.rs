//! Macro that implements the JSON traits of described structures: as values, and as links of pNext chains.

/// The form of the structure as a value, and its place in chains.
macro_rules! as_json {
    (plain $type:ty) => {
        $crate::json::structure_form::as_json!(@json $type, [], (made, object, reader) {}, (this, writer) {});
    };
    (marked $type:ty) => {
        $crate::json::structure_form::as_json!(plain $type);
    };
    (chained $type:ty) => {
        $crate::json::structure_form::as_json!(link $type);
        $crate::json::structure_form::as_json!(@json $type, ["pNext"],
            (made, object, reader) {
                if let Some(chain) = object.get("pNext") {
                    let next = reader.chain(chain).map_err(|error| error.inside("pNext"))?;
                    $crate::json::form::Chained::set_next(&mut made, next);
                }
            },
            (this, writer) {
                if !this.p_next.is_null() {
                    writer.name("pNext");
                    // SAFETY: the chain of a valid structure (the # Safety section of `Json`).
                    unsafe { writer.chain(this.p_next)? };
                }
            });
    };
    (lone $type:ty) => {
        $crate::json::structure_form::as_json!(link $type);
        $crate::json::structure_form::as_json!(@json $type, [], (made, object, reader) {}, (this, writer) {
            // SAFETY: the chain of a valid structure (the # Safety section of `Json`).
            unsafe { $crate::json::chain::nothing_in(this.p_next)? };
        });
    };
    (newer $type:ty) => {
        $crate::json::structure_form::as_json!(link $type);
    };
    (link $type:ty) => {
        impl $crate::json::form::Chained for $type {
            fn set_next(&mut self, next: *mut std::ffi::c_void) {
                self.p_next = next;
            }
        }
    };
    (@json $type:ty, [$($other:literal)?],
        ($made:ident, $object:ident, $reader:ident) { $($read:tt)* },
        ($this:ident, $writer:ident) { $($write:tt)* }) => {
        impl $crate::json::form::Json for $type {
            #[allow(unused_mut, reason = "not each flavour has a chain")]
            fn read(
                value: &$crate::json::document::Value,
                $reader: &mut $crate::json::reader::Reader,
            ) -> Result<Self, $crate::json::error::ParseError> {
                use $crate::json::form::Members;
                let $object = $crate::json::members::object(value)?;
                $crate::json::members::only($object, Self::NAMES, &[$($other)?])?;
                let mut $made = Self::read_members($object, $reader)?;
                $($read)*
                Ok($made)
            }

            unsafe fn write(
                &self,
                $writer: &mut $crate::json::writer::Writer,
            ) -> Result<(), $crate::json::error::WriteError> {
                use $crate::json::form::Members;
                let $this = self;
                $writer.open('{');
                // SAFETY: the same promise (the # Safety section of `Json`).
                unsafe { $this.write_members($writer)? };
                $($write)*
                $writer.close('}');
                Ok(())
            }

            #[cfg(test)]
            fn sample(samples: &mut $crate::json::samples::Samples) -> Self {
                use $crate::json::form::Members;
                let mut $made = Self::sample_members(samples);
                $crate::json::structure_samples::sample_chain!($($other)? $made samples);
                $made
            }
        }
    };
}

pub(crate) use as_json;
