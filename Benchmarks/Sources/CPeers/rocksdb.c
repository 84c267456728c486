#include "loading.h"

#if __has_include(<rocksdb/c.h>)
#include <rocksdb/c.h>

#if __has_include(<rocksdb/version.h>)
#define VERSION_HEADER "/usr/include/rocksdb/version.h"
#endif

#define FUNCTIONS(F)                                                                               \
  F(rocksdb_options_create) F(rocksdb_options_destroy) F(rocksdb_options_set_create_if_missing)    \
  F(rocksdb_options_optimize_for_point_lookup) F(rocksdb_options_set_compression)                  \
  F(rocksdb_options_set_level_compaction_dynamic_level_bytes)                                      \
  F(rocksdb_options_set_max_background_jobs) F(rocksdb_options_set_bytes_per_sync)                 \
  F(rocksdb_open) F(rocksdb_close) F(rocksdb_put) F(rocksdb_delete) F(rocksdb_write)               \
  F(rocksdb_writeoptions_create) F(rocksdb_writeoptions_set_sync) F(rocksdb_writeoptions_destroy)  \
  F(rocksdb_readoptions_create) F(rocksdb_readoptions_destroy) F(rocksdb_get_pinned)               \
  F(rocksdb_pinnableslice_value) F(rocksdb_pinnableslice_destroy) F(rocksdb_create_iterator)       \
  F(rocksdb_iter_seek_to_first) F(rocksdb_iter_seek) F(rocksdb_iter_valid) F(rocksdb_iter_next) F(rocksdb_iter_key)     \
  F(rocksdb_iter_value) F(rocksdb_iter_get_error) F(rocksdb_iter_destroy)                          \
  F(rocksdb_writebatch_create) F(rocksdb_writebatch_put) F(rocksdb_writebatch_delete)              \
  F(rocksdb_writebatch_clear) F(rocksdb_writebatch_destroy) F(rocksdb_compact_range)               \
  F(rocksdb_free)
FUNCTIONS(PEER_FUNCTION)

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

static int failed(const char *what, char *error) {
  if (!error) return 0;
  peer_fail(what, error);
  p_rocksdb_free(error);
  return -1;
}

static peer_store *open_store(const char *path, const peer_options *options) {
  peer_store *store = calloc(1, sizeof *store);
  store->options = p_rocksdb_options_create();
  p_rocksdb_options_set_create_if_missing(store->options, 1);
  p_rocksdb_options_set_compression(store->options, rocksdb_lz4_compression);
  p_rocksdb_options_set_level_compaction_dynamic_level_bytes(store->options, 1);
  p_rocksdb_options_set_max_background_jobs(store->options, 6);
  p_rocksdb_options_set_bytes_per_sync(store->options, 1 << 20);
  p_rocksdb_options_optimize_for_point_lookup(store->options, 512);
  store->write = p_rocksdb_writeoptions_create();
  p_rocksdb_writeoptions_set_sync(store->write, options->sync);
  store->batch = p_rocksdb_writebatch_create();
  char *error = NULL;
  store->db = p_rocksdb_open(store->options, path, &error);
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

static int put(peer_store *store, peer_bytes key, peer_bytes value) {
  if (store->in_batch) {
    p_rocksdb_writebatch_put(store->batch, key.bytes, key.length, value.bytes, value.length);
    return 0;
  }
  char *error = NULL;
  p_rocksdb_put(store->db, store->write, key.bytes, key.length, value.bytes, value.length, &error);
  return failed("put", error);
}

static int remove_key(peer_store *store, peer_bytes key) {
  if (store->in_batch) {
    p_rocksdb_writebatch_delete(store->batch, key.bytes, key.length);
    return 0;
  }
  char *error = NULL;
  p_rocksdb_delete(store->db, store->write, key.bytes, key.length, &error);
  return failed("delete", error);
}

static int begin(peer_store *store) {
  p_rocksdb_writebatch_clear(store->batch);
  store->in_batch = true;
  return 0;
}

static int commit(peer_store *store) {
  char *error = NULL;
  store->in_batch = false;
  p_rocksdb_write(store->db, store->write, store->batch, &error);
  return failed("write", error);
}

static int compact(peer_store *store) {
  p_rocksdb_compact_range(store->db, NULL, 0, NULL, 0);
  return 0;
}

static peer_reader *open_reader(peer_store *store) {
  peer_reader *reader = calloc(1, sizeof *reader);
  reader->store = store;
  reader->options = p_rocksdb_readoptions_create();
  return reader;
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

static int scan(peer_reader *reader, peer_bytes from,
                bool (*visit)(void *, peer_bytes, peer_bytes), void *context) {
  // One iterator serves all scans of a reader, until the reader is refreshed.
  if (!reader->iterator)
    reader->iterator = p_rocksdb_create_iterator(reader->store->db, reader->options);
  rocksdb_iterator_t *iterator = reader->iterator;
  if (from.length) {
    p_rocksdb_iter_seek(iterator, from.bytes, from.length);
  } else {
    p_rocksdb_iter_seek_to_first(iterator);
  }
  while (p_rocksdb_iter_valid(iterator)) {
    peer_bytes key, value;
    key.bytes = p_rocksdb_iter_key(iterator, &key.length);
    value.bytes = p_rocksdb_iter_value(iterator, &value.length);
    if (!visit(context, key, value)) break;
    p_rocksdb_iter_next(iterator);
  }
  char *error = NULL;
  p_rocksdb_iter_get_error(iterator, &error);
  return failed("scan", error);
}

static int refresh(peer_reader *reader) {
  if (reader->iterator) p_rocksdb_iter_destroy(reader->iterator);
  reader->iterator = NULL;
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
    .settings = "optimize_for_point_lookup (512 MB block cache, bloom filter, hash in data blocks), "
                "LZ4, dynamic level bytes, 6 background jobs, bytes_per_sync 1 MB; get_pinned",
    .load = load, .version = version, .message = peer_message, .open = open_store,
    .close = close_store, .put = put, .remove = remove_key, .begin = begin, .commit = commit,
    .compact = compact, .reader = open_reader, .refresh = refresh, .get = get, .scan = scan,
    .close_reader = close_reader,
};
#else
PEER_MISSING(peer_rocksdb, "rocksdb", "RocksDB", "librocksdb-dev")
#endif
