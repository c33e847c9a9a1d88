"""Functions of torch by what they do to values, by name.

A function that is in none of these sets makes its results from its arguments. Knows nothing else.
"""

#: Functions that only look at a tensor, give a view of it, or leave its contents unset.
LOOKS = {
    "__get__", "__hash__", "__len__", "__iter__", "__dir__", "__repr__", "__format__",
    "__reduce_ex__", "__deepcopy__", "__setstate__", "size", "dim", "ndimension", "stride",
    "numel", "nelement", "element_size", "storage_offset", "data_ptr", "is_contiguous",
    "is_floating_point", "is_complex", "get_device", "view", "view_as", "expand", "expand_as",
    "permute", "transpose", "t", "squeeze", "unsqueeze", "detach", "unbind", "chunk", "split",
    "split_with_sizes", "select", "narrow", "unfold", "as_strided", "swapaxes", "swapdims",
    "movedim", "diagonal", "requires_grad_", "retain_grad", "register_hook", "backward",
    "untyped_storage", "storage", "has_names", "is_pinned", "record_stream", "is_shared",
    "share_memory_", "broadcast_tensors", "tensor_split", "result_type", "can_cast",
    "promote_types", "is_same_size", "is_set_to", "is_inference",
    "register_post_accumulate_grad_hook", "detach_", "numpy", "__array__", "grad",
    "get_rng_state",
    "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted",
    "resize_", "resize_as_", "set_", "t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_",
    "swapdims_", "as_strided_", "rename_",
}  # fmt: skip
#: Functions that give a number to Python.
NUMBERS = {
    "item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__complex__",
    "__contains__", "is_nonzero", "equal", "allclose",
}  # fmt: skip
#: Functions of several operators that need a number in the middle to know how much to allocate.
#: Where one operator needs it, a kernel of ours has it (`kernels.py`).
COUNTS = {
    "one_hot", "combinations",
}  # fmt: skip
#: The same for sparse tensors: the number of elements, or of blocks, that are not zero.
SPARSE = {
    "to_dense", "to_sparse", "to_sparse_coo", "to_sparse_csr", "to_sparse_csc", "to_sparse_bsr",
    "to_sparse_bsc",
}  # fmt: skip
#: In those, what is read is the largest index and not how many there are.
LARGEST = {
    "bincount", "one_hot",
}  # fmt: skip
#: Functions of one operator that a kernel of ours sees (`kernels.py`).
OPERATORS = {
    "nonzero", "argwhere", "eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__", "__lt__",
    "__le__", "__gt__", "__ge__", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "logical_not", "logical_and", "logical_or", "logical_xor", "bincount", "_unique2", "_unique",
    "unique_dim", "_unique_impl", "_unique_consecutive_impl", "_return_output", "unique",
    "unique_consecutive",
}  # fmt: skip
#: Functions that ask the device whether their operands are fit, and raise when they are not: what
#: is answered to each question, in bits, so that they are.
CHECKED = {
    "normal": -1,
    "segment_reduce": -1, "_segment_reduce": -1,
    # All elements are finite; none of the matrices gave an error.
    "eig": 0b01, "eigvals": 0b01, "linalg_eig": 0b01, "linalg_eigvals": 0b01,
    # No element is below zero; the sum is not zero.
    "multinomial": 0b01,
}  # fmt: skip
#: Functions of models that make floats of many floats: what they compute is not followed.
MIXES = {
    "linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm", "einsum",
    "bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "scaled_dot_product_attention", "multi_head_attention_forward",
    "layer_norm", "rms_norm", "group_norm", "softmax", "log_softmax", "gelu", "silu",
}  # fmt: skip
#: Functions that write to the statistics among their arguments, while a model is trained.
STATISTICS = {"batch_norm", "instance_norm"}
#: Functions that copy.
COPIES = {
    "to", "cpu", "cuda", "copy_", "clone", "contiguous", "type", "float", "half", "bfloat16",
}  # fmt: skip
#: Functions that set all of what they write to, so that what was there before does not matter.
OVERWRITES = {
    "copy_", "fill_", "zero_", "random_", "bernoulli_", "normal_", "uniform_", "exponential_",
    "cauchy_", "log_normal_", "geometric_", "constant_", "ones_", "zeros_",
}  # fmt: skip
#: Functions that look at the shape and the kind of their first argument alone.
SHAPED = {
    "rand_like", "randn_like", "randint_like", "zeros_like", "ones_like", "full_like", "new_full",
    "new_ones", "new_zeros",
}  # fmt: skip
#: Functions that give random numbers.
RANDOM = {
    "randint", "randint_like", "randperm", "random_", "bernoulli", "bernoulli_", "multinomial",
    "poisson", "geometric_", "rand", "randn", "rand_like", "randn_like", "normal", "normal_",
    "uniform_", "exponential_", "cauchy_", "log_normal_", "dropout", "rrelu",
}  # fmt: skip
#: Functions whose results depend on no tensor's values. Those on the left make a tensor, by a
#: function of a size; those in `OVERWRITES` write to one.
CREATES = {
    "rand": "rand", "rand_like": "rand", "randn": "randn", "randn_like": "randn",
    "ones": "ones", "ones_like": "ones", "new_ones": "ones",
    "full": "full", "full_like": "full", "new_full": "full",
}  # fmt: skip
#: Functions that make each number from one of each argument. A name with `_` behind it writes.
ELEMENTWISE = {
    "eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "logical_or", "logical_xor",
    "bitwise_not", "bitwise_and", "bitwise_or", "__invert__", "__and__", "__or__", "__xor__",
    "add", "sub", "mul", "div", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__",
    "__rmul__", "__truediv__", "__rtruediv__", "__neg__", "__pow__", "rsub", "true_divide",
    "neg", "abs", "exp", "log", "sqrt", "sigmoid", "pow", "square", "floor", "ceil", "round",
    "clamp", "isnan", "isinf", "isfinite", "bool", "int", "long", "float", "half", "bfloat16",
    "double", "to", "type", "clone", "contiguous", "cpu", "cuda", "bernoulli",
}  # fmt: skip
#: How the names of functions begin that are not run on the host. Optimizers write to most of their
#: lists by pointer; solvers of the CPU use pivots as indices without a look at them.
UNSAFE = ("_fused_", "linalg_", "_linalg_", "lu_", "_lu_", "ldl_", "ormqr", "orgqr", "geqrf")
