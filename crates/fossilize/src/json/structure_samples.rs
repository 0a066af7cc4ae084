//! Values for tests, from the descriptions of structures.

macro_rules! sample_member {
    ($made:ident, $samples:ident, value $field:ident) => {
        $made.$field = $crate::json::form::Json::sample($samples);
    };
    ($made:ident, $samples:ident, mode $field:ident) => {
        $made.$field = $samples.below(1 << 31) as i32;
    };
    ($made:ident, $samples:ident, module $field:ident) => {
        $made.$field = $crate::json::form::Json::sample($samples);
    };
    ($made:ident, $samples:ident, optional $field:ident) => {
        $made.$field = $crate::json::form::Json::sample($samples);
    };
    ($made:ident, $samples:ident, tagged $field:ident) => {
        $made.$field = $crate::json::form::Members::sample_members($samples);
    };
    ($made:ident, $samples:ident, $list:ident $field:ident => $count:ident) => {
        $made.$count = $samples.below(4) as u32;
        $made.$field = $samples.list($made.$count.into(), $crate::json::form::Json::sample);
    };
    ($made:ident, $samples:ident, sized $field:ident [$by:ident]) => {
        if $samples.below(2) == 1 {
            $made.$by %= 5;
            $made.$field = $samples.list($made.$by.into(), $crate::json::form::Json::sample);
        }
    };
    ($made:ident, $samples:ident, counted $field:ident [$by:ident]) => {
        $made.$by %= 5;
        if $samples.below(2) == 1 {
            $made.$field = $samples.list($made.$by.into(), $crate::json::form::Json::sample);
        }
    };
    ($made:ident, $samples:ident, mask $field:ident [$by:ident]) => {
        $made.$by = ash::vk::SampleCountFlags::from_raw(1 << $samples.below(7));
        if $samples.below(2) == 1 {
            $made.$field =
                $samples.list(u64::from($made.$by.as_raw()).div_ceil(32), $crate::json::form::Json::sample);
        }
    };
    ($made:ident, $samples:ident, bytes $field:ident [$by:ident]) => {
        $made.$by = $samples.below(12) as usize;
        $made.$field = $samples.list(2, <u64 as $crate::json::form::Json>::sample).cast_const().cast();
    };
    ($made:ident, $samples:ident, entries $field:ident => $count:ident [$by:ident]) => {
        ($made.$count, $made.$field) = $samples.entries($made.$by);
    };
    ($made:ident, $samples:ident, pointer $field:ident) => {
        $made.$field = $samples.maybe($crate::json::form::Json::sample);
    };
    ($made:ident, $samples:ident, string $field:ident) => {
        $made.$field = c"ma\"in\n\u{e9}".as_ptr();
    };
    ($made:ident, $samples:ident, name $field:ident) => {
        $made.$field = c"".as_ptr();
    };
    ($made:ident, $samples:ident, swizzles $field:ident) => {
        let [r, g, b, a] = $crate::json::form::Json::sample($samples);
        $made.$field = ash::vk::ComponentMapping { r, g, b, a };
    };
    ($made:ident, $samples:ident, words $field:ident) => {
        $made.$field = ash::vk::ClearColorValue { uint32: $crate::json::form::Json::sample($samples) };
    };
    ($made:ident, $samples:ident, range $field:ident) => {
        $made.$field =
            $samples.list(1, <DepthClampRange as $crate::json::form::Json>::sample).cast_const().cast();
    };
    ($made:ident, $samples:ident, absent $field:ident) => {};
}

macro_rules! sample_chain {
    ($chain:literal $made:ident $samples:ident) => {
        let next = $samples.chain();
        $crate::json::form::Chained::set_next(&mut $made, next);
    };
    ($made:ident $samples:ident) => {
        let _ = &mut $made;
    };
}

pub(crate) use {sample_chain, sample_member};
