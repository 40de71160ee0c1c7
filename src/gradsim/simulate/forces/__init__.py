"""Force families, one file each: declaration and portable kernel; `native/` holds their C++ twins."""
