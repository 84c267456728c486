#ifndef MORAINE_CLZ4_SHIM_H
#define MORAINE_CLZ4_SHIM_H
#include <lz4.h>
#endif
