"""The range of numbers in a scene, in SI units: products of a few of them stay finite in double precision."""

LARGEST = 1e30  # absolute value
SMALLEST = 1e-30  # value of a quantity that must be > 0
