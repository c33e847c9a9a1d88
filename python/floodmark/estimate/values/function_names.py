"""Names of torch's functions, grouped by their effect on values.

A function that is in none of these sets computes its results from its arguments. Knows nothing
else.
"""

#: Functions that query a tensor, return a view of it, or leave its contents unset.
QUERIES = {
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
#: Functions that return a number to Python.
NUMBERS = {
    "item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__complex__",
    "__contains__", "is_nonzero", "equal", "allclose",
}  # fmt: skip
#: Functions of several operators that read a number on the way to size an allocation. For a single
#: operator that does so, a kernel sets the number (`kernels.py`).
COUNTS = {
    "one_hot", "combinations",
}  # fmt: skip
#: The same for sparse tensors: the number of non-zero elements or blocks.
SPARSE = {
    "to_dense", "to_sparse", "to_sparse_coo", "to_sparse_csr", "to_sparse_csc", "to_sparse_bsr",
    "to_sparse_bsc",
}  # fmt: skip
#: Functions that read the largest index instead of a count.
LARGEST = {
    "bincount", "one_hot",
}  # fmt: skip
#: Functions of one operator, which is followed by a kernel (`kernels.py`).
OPERATORS = {
    "nonzero", "argwhere", "eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__", "__lt__",
    "__le__", "__gt__", "__ge__", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "logical_not", "logical_and", "logical_or", "logical_xor", "bincount", "_unique2", "_unique",
    "unique_dim", "_unique_impl", "_unique_consecutive_impl", "_return_output", "unique",
    "unique_consecutive",
}  # fmt: skip
#: Functions that read from the device whether their operands are valid, and raise if not: the bits
#: that answer each read so that they are valid.
CHECKED = {
    "normal": -1,
    "segment_reduce": -1, "_segment_reduce": -1,
    # All elements are finite; none of the matrices gave an error.
    "eig": 0b01, "eigvals": 0b01, "linalg_eig": 0b01, "linalg_eigvals": 0b01,
    # No element is below zero; the sum is not zero.
    "multinomial": 0b01,
}  # fmt: skip
#: Layers of models that compute floats from many floats: their results are not computed.
FLOAT_LAYERS = {
    "linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm", "einsum",
    "bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "scaled_dot_product_attention", "multi_head_attention_forward",
    "layer_norm", "rms_norm", "group_norm", "softmax", "log_softmax", "gelu", "silu",
}  # fmt: skip
#: Functions that update running statistics among their arguments during training.
STATISTICS = {"batch_norm", "instance_norm"}
#: Functions that copy.
COPIES = {
    "to", "cpu", "cuda", "copy_", "clone", "contiguous", "type", "float", "half", "bfloat16",
}  # fmt: skip
#: Functions that overwrite their target completely, so that its previous value does not matter.
OVERWRITES = {
    "copy_", "fill_", "zero_", "random_", "bernoulli_", "normal_", "uniform_", "exponential_",
    "cauchy_", "log_normal_", "geometric_", "constant_", "ones_", "zeros_",
}  # fmt: skip
#: Functions that use only the shape and type of their first argument.
SHAPED = {
    "rand_like", "randn_like", "randint_like", "zeros_like", "ones_like", "full_like", "new_full",
    "new_ones", "new_zeros",
}  # fmt: skip
#: Functions that return random numbers.
RANDOM = {
    "randint", "randint_like", "randperm", "random_", "bernoulli", "bernoulli_", "multinomial",
    "poisson", "geometric_", "rand", "randn", "rand_like", "randn_like", "normal", "normal_",
    "uniform_", "exponential_", "cauchy_", "log_normal_", "dropout", "rrelu",
}  # fmt: skip
#: Functions whose results depend on no tensor's values: the one on the left creates a tensor like
#: the one on the right, which takes a size. Those in `OVERWRITES` write to a tensor.
CREATES = {
    "rand": "rand", "rand_like": "rand", "randn": "randn", "randn_like": "randn",
    "ones": "ones", "ones_like": "ones", "new_ones": "ones",
    "full": "full", "full_like": "full", "new_full": "full",
}  # fmt: skip
#: Functions that work element by element. The same name with a final `_` works in place.
ELEMENTWISE = {
    "eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "logical_or", "logical_xor",
    "bitwise_not", "bitwise_and", "bitwise_or", "__invert__", "__and__", "__or__", "__xor__",
    "add", "sub", "mul", "div", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__",
    "__rmul__", "__truediv__", "__rtruediv__", "__neg__", "__pow__", "rsub", "true_divide",
    "neg", "abs", "exp", "log", "sqrt", "sigmoid", "pow", "square", "floor", "ceil", "round",
    "clamp", "isnan", "isinf", "isfinite", "bool", "int", "long", "float", "half", "bfloat16",
    "double", "to", "type", "clone", "contiguous", "cpu", "cuda", "bernoulli",
}  # fmt: skip
#: Prefixes of functions that are not run on the host: fused optimizers write to lists by pointer,
#: and CPU solvers use pivots as indices without checking them.
UNSAFE = ("_fused_", "linalg_", "_linalg_", "lu_", "_lu_", "ldl_", "ormqr", "orgqr", "geqrf")
