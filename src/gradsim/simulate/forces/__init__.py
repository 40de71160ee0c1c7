"""Force families, one file each: declaration and portable kernel. `native/` has their C++ counterparts."""
