"""ONNX files, read without protobuf and without onnx: into the operators that exported programs are run by."""
