//! Configuration of both programs: declared once, read from flags, environment and file.
