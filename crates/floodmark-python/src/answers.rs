//! Answers other than the report as Python objects: text, HTML and the documented JSON.

use pyo3::prelude::*;

use crate::errors::wrong_argument;

macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident($answer:ty);)*) => {
        $(
            $(#[$doc])*
            #[pyclass(frozen, module = "floodmark._core")]
            pub(crate) struct $name(pub(crate) $answer);

            #[pymethods]
            impl $name {
                fn __str__(&self) -> String {
                    floodmark_text::text_table::render(&self.0)
                }

                fn _repr_html_(&self) -> String {
                    floodmark_text::html::render_html(&self.0)
                }

                /// The documented JSON.
                fn to_json(&self) -> PyResult<String> {
                    serde_json::to_string(&self.0).map_err(wrong_argument)
                }
            }
        )*
    };
}

answers! {
    /// The answer of `Trace.diff`.
    Diff(floodmark_analysis::Diff);
    /// The answer of `Trace.leaks`.
    Leaks(floodmark_analysis::Leaks);
    /// The answer of `Trace.simulate`.
    Simulation(floodmark_analysis::Simulation);
    /// The answer of `Trace.oom`.
    Oom(floodmark_analysis::OomReport);
    /// The explanation of torch's out-of-memory messages.
    OomMessages(floodmark_analysis::OomMessages);
    /// The answer of `Trace.advise`.
    Advice(floodmark_analysis::AdviceReport);
    /// The answer of `Trace.estimate`.
    Estimate(floodmark_analysis::Estimate);
}
