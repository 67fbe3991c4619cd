"""Bazel's own rules under the names by which Bazel's tools load them."""

proto_lang_toolchain = native.proto_lang_toolchain
proto_library = native.proto_library
