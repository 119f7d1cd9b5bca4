//! Path parameters, query parameters and headers as typed values: each value is text, and is read as what its field asks for.

use super::Pair;
use serde::{
    de::{
        DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor,
        value::{Error, MapDeserializer},
    },
    forward_to_deserialize_any,
};

/// Decodes a struct from names and values. Names that are not known are ignored; one given twice is refused.
/// The error is one line that names the field.
pub(super) fn decode<T: DeserializeOwned>(pairs: &[Pair<'_>]) -> Result<T, String> {
    let map = MapDeserializer::new(pairs.iter().map(|(name, value)| (name.as_ref(), Text(value))));
    serde_path_to_error::deserialize(map).map_err(|err| {
        let path = err.path().to_string();
        if path == "." { err.inner().to_string() } else { format!("{path}: {}", err.inner()) }
    })
}

/// One value.
#[derive(Debug, Clone, Copy)]
struct Text<'a>(&'a str);

impl<'de> IntoDeserializer<'de, Error> for Text<'_> {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! numbers {
    ($( $deserialize:ident $visit:ident )+) => { $(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.0.parse().map_err(|_| Error::custom("must be a whole number in range"))?)
        }
    )+ };
}

impl<'de> Deserializer<'de> for Text<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        IntoDeserializer::<Error>::into_deserializer(self.0).deserialize_enum(name, variants, visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.0.parse().map_err(|_| Error::custom("must be true or false"))?)
    }

    numbers! {
        deserialize_u8 visit_u8
        deserialize_u16 visit_u16
        deserialize_u32 visit_u32
        deserialize_u64 visit_u64
        deserialize_i8 visit_i8
        deserialize_i16 visit_i16
        deserialize_i32 visit_i32
        deserialize_i64 visit_i64
    }

    forward_to_deserialize_any! {
        i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
