"""Values that a program reads: computed on the host, given by the user, or assumed.

Both engines run a call a second time on the host (`host_copies`) and list assumed values
(`assumed_reads`). They differ in where a value is stored and which calls they follow:

- On a phantom GPU (`phantom_values`) a value lies at an address. torch's C++ code copies, frees and
  reuses memory without a call that Python sees, so the phantom's library keeps which bytes have a
  value, and `store` keeps the values there. torch's functions are followed, not its operators: a
  program makes far fewer calls of functions, and kernels read sizes back in the middle of one.
- A fake tensor (`fake_values`) has no bytes at its address, and every operator passes through
  Python in any case, so the value is an attribute of the tensor. Operators that read values get an
  answer with its shape (`fake_reads`), since no kernel runs that could read one.
"""
