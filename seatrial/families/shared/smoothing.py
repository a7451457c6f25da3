"""What a smoothed network is asked at once."""

NOISY_COPIES = {"cpu": 100, "cuda": 1000}
"""Noisy copies of one image in a forward pass, at most, by kind of device.

Measured on one CPU thread, microseconds a copy at 25, 50, 100, 200, 500 rows: a CNN of 2 convolutions at 1x28x28
20, 17, 15, 16, 16; a ResNet-20 at 3x32x32, channels last, 917, 1046, 1000, 1014, 1338. Not measured on a GPU.
"""
