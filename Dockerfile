# slackaug in a container:
#
#     docker build --tag slackaug .
#     docker build --tag slackaug --build-arg TORCH_INDEX=https://pypi.org/simple .     # with CUDA; add --gpus all below
#     docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/work" slackaug search pets/ -o runs/pets
FROM python:3.11-slim

# Where torch is from. This index has builds without CUDA; the one of PyPI has them with it.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
WORKDIR /src
COPY constraints.txt ./
# First what is large and seldom changes, as a layer of its own.
RUN pip install --no-cache-dir --constraint constraints.txt --extra-index-url "$TORCH_INDEX" torch numpy scipy pillow
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt .

# For whatever user: decoded images are kept under the home folder, and runs lie in /work.
ENV HOME=/tmp
WORKDIR /work
USER 65534:65534
ENTRYPOINT ["slackaug"]
CMD ["--help"]
