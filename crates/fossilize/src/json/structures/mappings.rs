//! Mappings of a stage's descriptors into a descriptor heap. The source of a mapping decides which member of its union
//! is valid.

use std::slice;

use vkstash_model::newer::{
    DescriptorSetAndBindingMappingEXT, EmbeddedSampler, MappingSourceData,
    ShaderDescriptorSetAndBindingMappingInfoEXT,
};

use crate::json::chain::nothing_in;
use crate::json::document::{Object, Value};
use crate::json::error::{ParseError, Problem, WriteError};
use crate::json::form::Json;
use crate::json::members::{object, only, read, read_pointer, required, write, write_pointer};
use crate::json::reader::Reader;
#[cfg(test)]
use crate::json::samples::Samples;
use crate::json::structure::structure;
use crate::json::writer::Writer;

structure! { newer ShaderDescriptorSetAndBindingMappingInfoEXT {
    "mappings": list p_mappings => mapping_count,
} }

/// Which member of the union counts.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Constant,
    Push,
    Indirect,
    Two,
    One,
}

/// What a source is called, and the names of its numbers before and behind the embedded sampler.
struct Source {
    name: &'static str,
    shape: Shape,
    before: &'static [&'static str],
    behind: &'static [&'static str],
}

const COMBINED: &str = "useCombinedImageSamplerIndex";

/// By number (VkDescriptorMappingSourceEXT).
const SOURCES: [Source; 11] = [
    Source {
        name: "constantOffset",
        shape: Shape::Constant,
        before: &["heapOffset", "heapArrayStride"],
        behind: &["samplerHeapOffset", "samplerHeapArrayStride"],
    },
    Source {
        name: "pushIndex",
        shape: Shape::Push,
        before: &["heapOffset", "pushOffset", "heapIndexStride", "heapArrayStride"],
        behind: &[
            COMBINED,
            "samplerHeapOffset",
            "samplerPushOffset",
            "samplerHeapIndexStride",
            "samplerHeapArrayStride",
        ],
    },
    Source {
        name: "indirectIndex",
        shape: Shape::Indirect,
        before: &["heapOffset", "pushOffset", "addressOffset", "heapIndexStride", "heapArrayStride"],
        behind: &[
            COMBINED,
            "samplerHeapOffset",
            "samplerPushOffset",
            "samplerAddressOffset",
            "samplerHeapIndexStride",
            "samplerHeapArrayStride",
        ],
    },
    Source {
        name: "indirectIndexArray",
        shape: Shape::Push,
        before: &["heapOffset", "pushOffset", "addressOffset", "heapIndexStride"],
        behind: &[
            COMBINED,
            "samplerHeapOffset",
            "samplerPushOffset",
            "samplerAddressOffset",
            "samplerHeapIndexStride",
        ],
    },
    Source { name: "heapData", shape: Shape::Two, before: &["heapOffset", "pushOffset"], behind: &[] },
    one("pushDataOffset"),
    one("pushAddressOffset"),
    Source {
        name: "indirectAddress",
        shape: Shape::Two,
        before: &["pushOffset", "addressOffset"],
        behind: &[],
    },
    Source {
        name: "shaderRecordIndex",
        shape: Shape::Push,
        before: &["heapOffset", "shaderRecordOffset", "heapIndexStride", "heapArrayStride"],
        behind: &[
            COMBINED,
            "samplerHeapOffset",
            "samplerShaderRecordOffset",
            "samplerHeapIndexStride",
            "samplerHeapArrayStride",
        ],
    },
    one("shaderRecordDataOffset"),
    one("shaderRecordAddressOffset"),
];

/// A source that is a number.
const fn one(name: &'static str) -> Source {
    Source { name, shape: Shape::One, before: &[], behind: &[] }
}

/// The numbers before the embedded sampler, the sampler, and the numbers behind it.
type Parts<'a> = (&'a mut [u32], Option<&'a mut EmbeddedSampler>, &'a mut [u32]);

/// The parts of the member that counts.
///
/// # Safety
/// All bytes of the union are initialised.
unsafe fn parts(data: &mut MappingSourceData, shape: Shape) -> Parts<'_> {
    // SAFETY: numbers and pointers are valid for all initialised bytes (this function's # Safety section).
    unsafe {
        match shape {
            Shape::Constant => {
                let data = &mut data.constant_offset;
                (&mut data.before, Some(&mut data.sampler), &mut data.behind)
            }
            Shape::Push => {
                let data = &mut data.push_index;
                (&mut data.before, Some(&mut data.sampler), &mut data.behind)
            }
            Shape::Indirect => {
                let data = &mut data.indirect_index;
                (&mut data.before, Some(&mut data.sampler), &mut data.behind)
            }
            Shape::Two => (&mut data.two_offsets, None, &mut []),
            Shape::One => (slice::from_mut(&mut data.offset), None, &mut []),
        }
    }
}

const NUMBERS: [&str; 5] = ["descriptorSet", "firstBinding", "bindingCount", "resourceMask", "source"];

impl Json for DescriptorSetAndBindingMappingEXT {
    fn read(value: &Value, reader: &mut Reader) -> Result<Self, ParseError> {
        let mapping = object(value)?;
        only(mapping, &NUMBERS, &["sourceData"])?;
        let mut made = blank();
        made.descriptor_set = read(mapping, "descriptorSet", reader)?;
        made.first_binding = read(mapping, "firstBinding", reader)?;
        made.binding_count = read(mapping, "bindingCount", reader)?;
        made.resource_mask = read(mapping, "resourceMask", reader)?;
        let number: u32 = read(mapping, "source", reader)?;
        let unknown = || ParseError::new(Problem::Source(number)).inside("source");
        let source = SOURCES.get(number as usize).ok_or_else(unknown)?;
        made.source = number as i32;
        let inside = |error: ParseError| error.inside("sourceData");
        let data = object(required(mapping, "sourceData")?).map_err(inside)?;
        read_source(data, source, &mut made.source_data, reader).map_err(inside)?;
        Ok(made)
    }

    unsafe fn write(&self, writer: &mut Writer) -> Result<(), WriteError> {
        // SAFETY: the chain of a valid structure (the # Safety section of `Json`).
        unsafe { nothing_in(self.p_next)? };
        let source = usize::try_from(self.source).ok().and_then(|source| SOURCES.get(source));
        let source = source.ok_or(WriteError::Source(self.source))?;
        writer.open('{');
        let DescriptorSetAndBindingMappingEXT { descriptor_set, first_binding, binding_count, .. } = *self;
        let numbers = [descriptor_set, first_binding, binding_count, self.resource_mask, self.source as u32];
        for (name, number) in NUMBERS.iter().zip(numbers) {
            writer.name(name);
            writer.raw(number);
        }
        writer.name("sourceData");
        writer.open('{');
        // SAFETY: the member that the source selects is valid (the # Safety section of `Json`).
        unsafe { write_source(source, &self.source_data, writer)? };
        writer.close('}');
        writer.close('}');
        Ok(())
    }

    #[cfg(test)]
    fn sample(samples: &mut Samples) -> Self {
        let mut made = blank();
        made.descriptor_set = samples.word() as u32;
        made.first_binding = samples.word() as u32;
        made.binding_count = samples.word() as u32;
        made.resource_mask = samples.word() as u32;
        made.source = samples.below(11) as i32;
        let shape = SOURCES[made.source as usize].shape;
        // SAFETY: `blank` initialised all bytes.
        let (before, sampler, behind) = unsafe { parts(&mut made.source_data, shape) };
        before.iter_mut().chain(behind).for_each(|number| *number = samples.word() as u32);
        if let Some(sampler) = sampler {
            *sampler = samples.maybe(Json::sample);
        }
        made
    }
}

/// A mapping whose bytes are all initialised.
fn blank() -> DescriptorSetAndBindingMappingEXT {
    // SAFETY: numbers and pointers, which may all be zero.
    let mut made: DescriptorSetAndBindingMappingEXT = unsafe { std::mem::zeroed() };
    made.s_type = <DescriptorSetAndBindingMappingEXT as ash::vk::TaggedStructure>::STRUCTURE_TYPE;
    made
}

fn read_source(
    object: &Object,
    source: &Source,
    data: &mut MappingSourceData,
    reader: &mut Reader,
) -> Result<(), ParseError> {
    only(object, &[source.name], &[])?;
    // SAFETY: the data is part of what `blank` made.
    let (before, sampler, behind) = unsafe { parts(data, source.shape) };
    if source.shape == Shape::One {
        before[0] = read(object, source.name, reader)?;
        return Ok(());
    }
    let parts = || {
        let object = self::object(required(object, source.name)?)?;
        let names = [source.before, source.behind].concat();
        only(object, &names, if sampler.is_some() { &["embeddedSampler"] } else { &[] })?;
        for (number, name) in before.iter_mut().chain(behind).zip(names) {
            *number = read(object, name, reader)?;
        }
        if let Some(sampler) = sampler {
            *sampler = read_pointer(object, "embeddedSampler", reader)?;
        }
        Ok(())
    };
    parts().map_err(|error: ParseError| error.inside(source.name))
}

/// # Safety
/// The member that the source selects is valid.
unsafe fn write_source(
    source: &Source,
    data: &MappingSourceData,
    writer: &mut Writer,
) -> Result<(), WriteError> {
    let mut data = *data;
    // SAFETY: the parts belong to the member that the source selects, which is valid (the # Safety section).
    unsafe {
        let (before, sampler, behind) = parts(&mut data, source.shape);
        if source.shape == Shape::One {
            return write(writer, source.name, &before[0]);
        }
        writer.name(source.name);
        writer.open('{');
        for (number, name) in before.iter().chain(&*behind).zip(source.before.iter().chain(source.behind)) {
            write(writer, name, number)?;
        }
        if let Some(sampler) = sampler {
            write_pointer(writer, "embeddedSampler", *sampler)?;
        }
        writer.close('}');
    }
    Ok(())
}
