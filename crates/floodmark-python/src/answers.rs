//! Answers beyond the report as Python objects: text, HTML and the documented JSON.

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
    /// What grew between two traces.
    Diff(floodmark_analysis::Diff);
    /// What grows from step to step.
    Leaks(floodmark_analysis::Leaks);
    /// What other settings would have done.
    Simulation(floodmark_analysis::Simulation);
    /// Why an allocation failed.
    Oom(floodmark_analysis::OomReport);
    /// What torch's out-of-memory messages mean.
    OomMessages(floodmark_analysis::OomMessages);
    /// What to change.
    Advice(floodmark_analysis::AdviceReport);
    /// Whether a program fits.
    Estimate(floodmark_analysis::Estimate);
}
