//! The messages of TensorFlow's `event.proto`, `summary.proto` and `tensor.proto` that we write, with the fields that we fill.

use floodmark_trace::Bytes;

/// `DataType`.
const DT_DOUBLE: i32 = 2;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    pub(crate) wall_time: f64,
    #[prost(int64, tag = "2")]
    pub(crate) step: i64,
    #[prost(string, optional, tag = "3")]
    pub(crate) file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub(crate) summary: Option<Summary>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub(crate) value: Vec<Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Value {
    #[prost(string, tag = "1")]
    pub(crate) tag: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) image: Option<Image>,
    #[prost(message, optional, tag = "8")]
    pub(crate) tensor: Option<TensorProto>,
    #[prost(message, optional, tag = "9")]
    pub(crate) metadata: Option<SummaryMetadata>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Image {
    #[prost(int32, tag = "1")]
    pub(crate) height: i32,
    #[prost(int32, tag = "2")]
    pub(crate) width: i32,
    /// 3: red, green and blue.
    #[prost(int32, tag = "3")]
    pub(crate) colorspace: i32,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) encoded_image_string: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorProto {
    #[prost(int32, tag = "1")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) tensor_shape: Option<TensorShape>,
    #[prost(double, repeated, tag = "6")]
    pub(crate) double_val: Vec<f64>,
}

impl TensorProto {
    /// A tensor without dimensions.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 8 PiB")]
    pub(crate) fn from_bytes(bytes: Bytes) -> Self {
        let double_val = vec![bytes.0 as f64];
        Self { dtype: DT_DOUBLE, tensor_shape: Some(TensorShape {}), double_val }
    }
}

/// No dimensions.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorShape {}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SummaryMetadata {
    #[prost(message, optional, tag = "1")]
    pub(crate) plugin_data: Option<PluginData>,
}

impl SummaryMetadata {
    /// Of a tag that is drawn as a line.
    pub(crate) fn scalars() -> Self {
        Self { plugin_data: Some(PluginData { plugin_name: "scalars".to_owned() }) }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PluginData {
    #[prost(string, tag = "1")]
    pub(crate) plugin_name: String,
}
