//! Structures whose inner structures have no object of their own in JSON.

use ash::vk;

use crate::json::document::Value;
use crate::json::error::{ParseError, WriteError};
use crate::json::form::Json;
use crate::json::members::{object, only, read, write};
use crate::json::reader::Reader;
#[cfg(test)]
use crate::json::samples::Samples;
use crate::json::writer::Writer;

impl Json for vk::Rect2D {
    fn read(value: &Value, reader: &mut Reader) -> Result<Self, ParseError> {
        let object = object(value)?;
        only(object, &["x", "y", "width", "height"], &[])?;
        let offset = vk::Offset2D { x: read(object, "x", reader)?, y: read(object, "y", reader)? };
        let (width, height) = (read(object, "width", reader)?, read(object, "height", reader)?);
        Ok(vk::Rect2D { offset, extent: vk::Extent2D { width, height } })
    }

    unsafe fn write(&self, writer: &mut Writer) -> Result<(), WriteError> {
        writer.open('{');
        // SAFETY: numbers, without pointers.
        unsafe {
            write(writer, "x", &self.offset.x)?;
            write(writer, "y", &self.offset.y)?;
            write(writer, "width", &self.extent.width)?;
            write(writer, "height", &self.extent.height)?;
        }
        writer.close('}');
        Ok(())
    }

    #[cfg(test)]
    fn sample(samples: &mut Samples) -> Self {
        let [x, y] = Json::sample(samples);
        vk::Rect2D { offset: vk::Offset2D { x, y }, extent: Json::sample(samples) }
    }
}

/// The types of a list: an array of numbers, not an object.
impl Json for vk::MutableDescriptorTypeListEXT<'static> {
    fn read(value: &Value, reader: &mut Reader) -> Result<Self, ParseError> {
        let mut types = Vec::new();
        for (index, value) in crate::json::members::array(value)?.iter().enumerate() {
            let read = vk::DescriptorType::read(value, reader);
            types.push(read.map_err(|error| error.inside(&index.to_string()))?);
        }
        let mut list = vk::MutableDescriptorTypeListEXT::default();
        list.descriptor_type_count = types.len() as u32;
        list.p_descriptor_types = reader.arena.list(types);
        Ok(list)
    }

    unsafe fn write(&self, writer: &mut Writer) -> Result<(), WriteError> {
        if self.p_descriptor_types.is_null() && self.descriptor_type_count > 0 {
            return Err(WriteError::Null("mutableDescriptorTypeLists"));
        }
        writer.open('[');
        for index in 0..self.descriptor_type_count as usize {
            writer.element();
            // SAFETY: valid for the count (the # Safety section of `Json`).
            unsafe { (*self.p_descriptor_types.add(index)).write(writer)? };
        }
        writer.close(']');
        Ok(())
    }

    #[cfg(test)]
    fn sample(samples: &mut Samples) -> Self {
        let count = samples.below(4);
        let mut list = vk::MutableDescriptorTypeListEXT::default();
        list.descriptor_type_count = count as u32;
        list.p_descriptor_types = samples.list(count, Json::sample);
        list
    }
}
