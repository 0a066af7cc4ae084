"""A small network with made-up weights, run by ncnn on its Vulkan device. Prints a hash of the output."""

import array
import hashlib
import math
import os
import tempfile

import ncnn
import numpy

NETWORK = """7767517
11 11
Input data 0 1 data 0=64 1=64 2=3
Convolution first 1 1 data first 0=16 1=3 4=1 5=1 6=432 9=1
Pooling smaller 1 1 first smaller 0=0 1=2 2=2
ConvolutionDepthWise each 1 1 smaller each 0=16 1=3 4=1 5=1 6=144 7=16 9=1
Convolution point 1 1 each point 0=32 1=1 5=1 6=512
Sigmoid squeeze 1 1 point squeeze
Pooling smallest 1 1 squeeze smallest 0=1 1=2 2=2
Interp larger 1 1 smallest larger 0=2 1=1.5 2=1.5
Pooling all 1 1 larger all 0=1 4=1
InnerProduct classes 1 1 all classes 0=10 1=1 2=320
Softmax output 1 1 classes output 0=0
"""
# Number of weights and of biases of each layer. In the file a tag precedes the weights.
WEIGHTS = [(432, 16), (144, 16), (512, 32), (320, 10)]


def write_weights(path):
    with open(path, "wb") as file:
        for weights, biases in WEIGHTS:
            file.write(bytes(4))
            values = (math.sin(i * 0.7) * 0.2 for i in range(weights + biases))
            file.write(array.array("f", values).tobytes())


net = ncnn.Net()
net.opt.use_vulkan_compute = True
net.opt.num_threads = 1
print("device:", ncnn.get_gpu_info(0).device_name())
with tempfile.TemporaryDirectory() as folder:
    network, weights = os.path.join(folder, "net.param"), os.path.join(folder, "net.bin")
    with open(network, "w", encoding="ascii") as file:
        file.write(NETWORK)
    write_weights(weights)
    assert net.load_param(network) == 0
    assert net.load_model(weights) == 0
picture = numpy.sin(numpy.arange(3 * 64 * 64, dtype=numpy.float32) * 0.01).reshape(3, 64, 64)
extractor = net.create_extractor()
extractor.input("data", ncnn.Mat(picture))
status, output = extractor.extract("output")
assert status == 0
values = numpy.array(output)
print("output:", values.shape, hashlib.sha256(values.tobytes()).hexdigest()[:16])
del extractor
net.clear()
del net
ncnn.destroy_gpu_instance()
