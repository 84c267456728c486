#ifndef MORAINE_CLZ4_SHIM_H
#define MORAINE_CLZ4_SHIM_H
#if !__has_include(<lz4.h>)
#error "lz4.h is missing: install liblz4-dev (brew install lz4), or enable the trait PortableLZ4"
#endif
#include <lz4.h>
#endif
