#include "loading.h"

#if __has_include(<rocksdb/c.h>)
#include <rocksdb/c.h>

#if __has_include(<rocksdb/version.h>)
#define VERSION_HEADER "/usr/include/rocksdb/version.h"
#endif

#define LEVEL(name) p_rocksdb_##name
#define FUNCTIONS(F)                                                                               \
  LEVEL_FUNCTIONS(F, rocksdb)                                                                      \
  F(rocksdb_options_optimize_for_point_lookup)                                                     \
  F(rocksdb_options_set_level_compaction_dynamic_level_bytes)                                      \
  F(rocksdb_options_set_max_background_jobs) F(rocksdb_options_set_bytes_per_sync)                 \
  F(rocksdb_open_with_ttl) F(rocksdb_get_pinned) F(rocksdb_pinnableslice_value) F(rocksdb_pinnableslice_destroy)

struct peer_store {
  rocksdb_t *db;
  rocksdb_options_t *options;
  rocksdb_writeoptions_t *write;
  rocksdb_writebatch_t *batch;
  bool in_batch;
};

struct peer_reader {
  rocksdb_iterator_t *iterator;
  peer_store *store;
  rocksdb_readoptions_t *options;
  rocksdb_pinnableslice_t *pinned;
};

#include "levels.h"

static const char *load(void) {
  void *library = peer_open_library("rocksdb");
  if (!library) return peer_message_text;
  FUNCTIONS(PEER_FIND)
  return NULL;
}

// Its C interface does not tell; the header, which belongs to the library's package, does.
static const char *version(void) {
  static char text[32];
  int major = 0, minor = 0, patch = 0;
#ifdef VERSION_HEADER
  FILE *file = fopen(VERSION_HEADER, "r");
  char line[256];
  while (file && fgets(line, sizeof line, file)) {
    sscanf(line, "#define ROCKSDB_MAJOR %d", &major);
    sscanf(line, "#define ROCKSDB_MINOR %d", &minor);
    sscanf(line, "#define ROCKSDB_PATCH %d", &patch);
  }
  if (file) fclose(file);
#endif
  snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
  return text;
}

static peer_store *open_store(const char *path, const peer_options *options) {
  peer_store *store = calloc(1, sizeof *store);
  store->options = p_rocksdb_options_create();
  p_rocksdb_options_set_create_if_missing(store->options, 1);
  p_rocksdb_options_set_compression(store->options, rocksdb_lz4_compression);
  p_rocksdb_options_set_level_compaction_dynamic_level_bytes(store->options, 1);
  p_rocksdb_options_set_max_background_jobs(store->options, 6);
  p_rocksdb_options_set_bytes_per_sync(store->options, 1 << 20);
  p_rocksdb_options_optimize_for_point_lookup(store->options, level_cache_bytes(options) >> 20);
  store->write = p_rocksdb_writeoptions_create();
  p_rocksdb_writeoptions_set_sync(store->write, options->sync);
  store->batch = p_rocksdb_writebatch_create();
  char *error = NULL;
  store->db = options->lifetime_seconds
                  ? p_rocksdb_open_with_ttl(store->options, path, options->lifetime_seconds, &error)
                  : p_rocksdb_open(store->options, path, &error);
  if (!failed("open", error)) return store;
  p_rocksdb_writebatch_destroy(store->batch);
  p_rocksdb_writeoptions_destroy(store->write);
  p_rocksdb_options_destroy(store->options);
  free(store);
  return NULL;
}

static int close_store(peer_store *store) {
  p_rocksdb_close(store->db);
  p_rocksdb_writebatch_destroy(store->batch);
  p_rocksdb_writeoptions_destroy(store->write);
  p_rocksdb_options_destroy(store->options);
  free(store);
  return 0;
}

static int get(peer_reader *reader, peer_bytes key, peer_bytes *value) {
  if (reader->pinned) p_rocksdb_pinnableslice_destroy(reader->pinned);
  char *error = NULL;
  reader->pinned =
      p_rocksdb_get_pinned(reader->store->db, reader->options, key.bytes, key.length, &error);
  if (failed("get", error)) return -1;
  if (!reader->pinned) return 1;
  value->bytes = p_rocksdb_pinnableslice_value(reader->pinned, &value->length);
  return 0;
}

static void close_reader(peer_reader *reader) {
  refresh(reader);
  if (reader->pinned) p_rocksdb_pinnableslice_destroy(reader->pinned);
  p_rocksdb_readoptions_destroy(reader->options);
  free(reader);
}

const peer_api peer_rocksdb = {
    .name = "rocksdb",
    .title = "RocksDB",
    .settings = "optimize_for_point_lookup (block cache of 512 MB or twice the data, bloom filter, "
                "hash in data blocks), LZ4, dynamic level bytes, 6 background jobs, bytes_per_sync "
                "1 MB; get_pinned",
    .load = load, .version = version, .message = peer_message, .open = open_store,
    .close = close_store, .put = put, .remove = remove_key, .begin = begin, .commit = commit,
    .compact = compact, .reader = open_reader, .refresh = refresh, .get = get, .scan = scan,
    .close_reader = close_reader,
};
#else
PEER_MISSING(peer_rocksdb, "rocksdb", "RocksDB", "librocksdb-dev")
#endif
