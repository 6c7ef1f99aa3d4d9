package blobtx
