"""The operators an exported program may name, each with the reason why it may.

An operator is allowed by its exact name, overload included. What is not here is refused: operators that read or write
files or load libraries, that draw random numbers, return memory nobody has written, run other graphs (higher-order
operators), have results whose shape depends on values, and whatever a library registers beside torch's own.
"""

from types import MappingProxyType

PREFIX = "torch.ops.aten."

_ATEN: tuple[tuple[str, str], ...] = (
    (
        "arithmetic on each value",
        "abs.default add.Scalar add.Tensor add_.Scalar add_.Tensor addcdiv.default addcmul.default atan2.default "
        "ceil.default clamp.default clamp.Tensor clamp_.default clamp_max.default clamp_min.default cos.default "
        "div.Scalar div.Scalar_mode div.Tensor div.Tensor_mode div_.Scalar div_.Tensor erf.default exp.default "
        "expm1.default floor.default floor_divide.default fmod.Scalar fmod.Tensor lerp.Scalar lerp.Tensor "
        "log.default log10.default log1p.default log2.default logit.default max.other maximum.default min.other "
        "minimum.default mul.Scalar mul.Tensor mul_.Scalar mul_.Tensor nan_to_num.default neg.default pow.Scalar "
        "pow.Tensor_Scalar pow.Tensor_Tensor reciprocal.default remainder.Scalar remainder.Tensor round.default "
        "rsqrt.default rsub.Scalar rsub.Tensor sign.default sin.default special_erf.default sqrt.default "
        "square.default sub.Scalar sub.Tensor sub_.Scalar sub_.Tensor tan.default true_divide.Tensor "
        "trunc.default",
    ),
    (
        "comparison and choice on each value",
        "bitwise_and.Tensor bitwise_not.default bitwise_or.Tensor bitwise_xor.Tensor eq.Scalar eq.Tensor "
        "ge.Scalar ge.Tensor gt.Scalar gt.Tensor isinf.default isnan.default le.Scalar le.Tensor "
        "logical_and.default logical_not.default logical_or.default logical_xor.default lt.Scalar lt.Tensor "
        "masked_fill.Scalar masked_fill.Tensor masked_fill_.Scalar ne.Scalar ne.Tensor where.Scalar "
        "where.ScalarOther where.ScalarSelf where.self",
    ),
    (
        "activation on each value or along one axis",
        "celu.default elu.default elu_.default gelu.default gelu_.default glu.default hardshrink.default "
        "hardsigmoid.default hardsigmoid_.default hardswish.default hardswish_.default hardtanh.default "
        "hardtanh_.default leaky_relu.default leaky_relu_.default log_sigmoid.default _log_softmax.default "
        "log_softmax.int mish.default mish_.default prelu.default _prelu_kernel.default relu.default "
        "relu6.default relu6_.default relu_.default selu.default selu_.default sigmoid.default sigmoid_.default "
        "silu.default silu_.default _softmax.default softmax.int softplus.default softshrink.default tanh.default "
        "tanh_.default threshold.default",
    ),
    (
        "matrix product",
        "addmm.default baddbmm.default bmm.default cdist.default cosine_similarity.default dot.default "
        "einsum.default linear.default matmul.default mm.default mv.default outer.default vdot.default "
        "_weight_norm.default",
    ),
    (
        "convolution",
        "conv1d.default conv1d.padding conv2d.default conv2d.padding conv3d.default conv3d.padding "
        "conv_transpose1d.default conv_transpose2d.input convolution.default",
    ),
    (
        "normalisation; of batches with stored statistics only",
        "batch_norm.default group_norm.default instance_norm.default layer_norm.default "
        "_native_batch_norm_legit_no_training.default native_group_norm.default native_layer_norm.default "
        "rms_norm.default",
    ),
    (
        "pooling and resampling",
        "adaptive_avg_pool1d.default _adaptive_avg_pool2d.default adaptive_avg_pool2d.default "
        "adaptive_max_pool2d.default affine_grid_generator.default avg_pool1d.default avg_pool2d.default "
        "avg_pool3d.default col2im.default grid_sampler.default grid_sampler_2d.default im2col.default "
        "max_pool1d.default max_pool2d.default max_pool2d_with_indices.default max_pool3d.default "
        "pixel_shuffle.default pixel_unshuffle.default upsample_bicubic2d.default upsample_bicubic2d.vec "
        "_upsample_bicubic2d_aa.default _upsample_bicubic2d_aa.vec upsample_bilinear2d.default "
        "upsample_bilinear2d.vec _upsample_bilinear2d_aa.default _upsample_bilinear2d_aa.vec "
        "upsample_nearest2d.default upsample_nearest2d.vec",
    ),
    (
        "attention without dropout",
        "scaled_dot_product_attention.default",
    ),
    (
        "the identity, as models in eval mode have it",
        "alpha_dropout.default dropout.default dropout_.default feature_dropout.default",
    ),
    (
        "rows of a table by their numbers",
        "embedding.default",
    ),
    (
        "another shape or order of the same values",
        "alias.default broadcast_to.default cat.default channel_shuffle.default chunk.default clone.default "
        "concat.default constant_pad_nd.default contiguous.default detach.default detach_.default "
        "diagonal.default expand.default expand_as.default flatten.using_ints flip.default gather.default "
        "index.Tensor index_select.default lift_fresh.default lift_fresh_copy.default meshgrid.default "
        "meshgrid.indexing movedim.int movedim.intlist narrow.default numpy_T.default pad.default permute.default "
        "reflection_pad2d.default repeat.default repeat_interleave.self_int replication_pad2d.default "
        "reshape.default _reshape_alias.default roll.default rot90.default scatter.src select.int slice.Tensor "
        "sort.default split.sizes split.Tensor split_with_sizes.default squeeze.default squeeze.dim squeeze.dims "
        "stack.default swapaxes.default swapdims.default t.default tile.default transpose.int tril.default "
        "triu.default unbind.int unflatten.int unfold.default _unsafe_view.default unsqueeze.default view.default "
        "view_as.default",
    ),
    (
        "another type, device or order in memory of the same values",
        "to.device to.dtype to.dtype_layout to.other _to_copy.default type_as.default",
    ),
    (
        "reduction along axes",
        "all.default all.dim amax.default amin.default any.default any.dim argmax.default argmin.default "
        "cumsum.default linalg_vector_norm.default logsumexp.default max.default max.dim mean.default mean.dim "
        "min.default min.dim prod.default prod.dim_int std.correction std.dim std_mean.correction std_mean.dim "
        "sum.default sum.dim_IntList topk.default var.correction var.dim var_mean.correction",
    ),
    (
        "values the graph states, or another tensor has",
        "arange.default arange.start arange.start_step copy_.default eye.default eye.m fill_.Scalar fill_.Tensor "
        "full.default full_like.default linspace.default new_full.default new_ones.default new_zeros.default "
        "ones.default ones_like.default scalar_tensor.default zero_.default zeros.default zeros_like.default",
    ),
    (
        "the size of a tensor, as an integer",
        "sym_numel.default sym_size.int",
    ),
)

OPERATORS: MappingProxyType[str, str] = MappingProxyType(
    {PREFIX + name: reason for reason, names in _ATEN for name in names.split()}
)
"""Reason why each operator of torch may be run, by its full name."""

ARITHMETIC: MappingProxyType[str, str] = MappingProxyType(
    {
        f"_operator.{name}": "integers only: sizes are worked out from sizes"
        for name in ("add", "sub", "mul", "floordiv", "mod", "neg", "eq", "ne", "lt", "le", "gt", "ge")
    }
)
"""Reason why each function of Python's ``operator`` may be called on integers, by its name in a graph."""

ASSERTIONS: MappingProxyType[str, str] = MappingProxyType(
    dict.fromkeys(
        (
            "torch.ops.aten._assert_scalar.default",
            "torch.ops.aten._assert_tensor_metadata.default",
            "torch.ops.aten.sym_constrain_range.default",
            "torch.ops.aten.sym_constrain_range_for_size.default",
        ),
        "passed over: it computes nothing, and shapes are traced before anything is run",
    )
)
"""Reason why each is left out of what is run."""

SWITCHED_OFF: MappingProxyType[str, tuple[int, str]] = MappingProxyType(
    {
        "torch.ops.aten.alpha_dropout.default": (2, "train"),
        "torch.ops.aten.batch_norm.default": (5, "training"),
        "torch.ops.aten.dropout.default": (2, "train"),
        "torch.ops.aten.dropout_.default": (2, "train"),
        "torch.ops.aten.feature_dropout.default": (2, "train"),
        "torch.ops.aten.scaled_dot_product_attention.default": (4, "dropout_p"),
    }
)
"""Position and name of the argument that must be off: what it switches on draws random numbers, or learns."""

_EXPORT_WITHOUT_NO_GRAD = (
    "export the model without `torch.no_grad()`, around the export and inside of `forward`: gradients are needed"
)
HINTS: tuple[tuple[str, str], ...] = (
    ("torch.ops.higher_order.wrap_with_set_grad_enabled", _EXPORT_WITHOUT_NO_GRAD),
    ("torch.ops.higher_order.wrap_with_autocast", "export the model without `torch.autocast`"),
    ("torch.ops.higher_order.", "control flow and graphs inside of graphs are not run: write `forward` without them"),
    ("torch.ops.aten._transformer_encoder_layer_fwd", _EXPORT_WITHOUT_NO_GRAD),
    ("torch.ops.aten._native_multi_head_attention", _EXPORT_WITHOUT_NO_GRAD),
    ("torch.ops.aten.rand", "a classifier draws no random numbers in eval mode"),
    ("torch.ops.aten.bernoulli", "a classifier draws no random numbers in eval mode"),
    ("torch.ops.aten.", "write `forward` with other operators of torch, or ask for this one"),
    ("torch.ops.", "operators that a library adds to torch are not here: write it with torch's own"),
)
"""What helps with refused operators, by the beginning of their names; the first that fits."""


def hint(target: str) -> str:
    """Return what helps where an operator is refused.

    >>> hint("torch.ops.mylib.frobnicate.default")
    "operators that a library adds to torch are not here: write it with torch's own"
    """
    return next((told for start, told in HINTS if target.startswith(start)), "a graph names operators of torch only")
