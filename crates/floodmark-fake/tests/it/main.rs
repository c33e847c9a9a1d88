//! Rules for hidden memory, compared with the memory that torch used.

mod against_torch;
