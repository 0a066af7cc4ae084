//! Lists in an encoding: `#[serde(with = "list")]`.
//!
//! A length that was read is believed only as far as elements follow. smallvec's own implementation reserves what
//! the length says, and a damaged one can ask for more than there is memory. Its `serde` feature is off, so that a
//! list without this module does not compile.

use std::fmt::{Formatter, Result as Written};
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use smallvec::{Array, SmallVec};

pub fn serialize<A, S>(list: &SmallVec<A>, serializer: S) -> Result<S::Ok, S::Error>
where
    A: Array<Item: Serialize>,
    S: Serializer,
{
    serializer.collect_seq(list)
}

pub fn deserialize<'de, A, D>(deserializer: D) -> Result<SmallVec<A>, D::Error>
where
    A: Array<Item: Deserialize<'de>>,
    D: Deserializer<'de>,
{
    struct Elements<A>(PhantomData<A>);
    impl<'de, A: Array<Item: Deserialize<'de>>> Visitor<'de> for Elements<A> {
        type Value = SmallVec<A>;

        fn expecting(&self, formatter: &mut Formatter<'_>) -> Written {
            formatter.write_str("a list")
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut elements: S) -> Result<SmallVec<A>, S::Error> {
            let mut list = SmallVec::new();
            while let Some(element) = elements.next_element()? {
                list.push(element);
            }
            Ok(list)
        }
    }
    deserializer.deserialize_seq(Elements(PhantomData))
}
