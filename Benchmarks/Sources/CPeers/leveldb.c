#include "loading.h"

#if __has_include(<leveldb/c.h>)
#include <leveldb/c.h>

#define FUNCTIONS(F)                                                                               \
  F(leveldb_options_create) F(leveldb_options_destroy) F(leveldb_options_set_create_if_missing)    \
  F(leveldb_options_set_compression) F(leveldb_options_set_filter_policy)                          \
  F(leveldb_options_set_cache) F(leveldb_options_set_write_buffer_size)                            \
  F(leveldb_filterpolicy_create_bloom) F(leveldb_cache_create_lru) F(leveldb_open)                 \
  F(leveldb_close) F(leveldb_put) F(leveldb_delete) F(leveldb_write) F(leveldb_get)                \
  F(leveldb_writeoptions_create) F(leveldb_writeoptions_set_sync) F(leveldb_writeoptions_destroy)  \
  F(leveldb_readoptions_create) F(leveldb_readoptions_destroy) F(leveldb_create_iterator)          \
  F(leveldb_iter_seek_to_first) F(leveldb_iter_seek) F(leveldb_iter_valid) F(leveldb_iter_next) F(leveldb_iter_key)     \
  F(leveldb_iter_value) F(leveldb_iter_get_error) F(leveldb_iter_destroy)                          \
  F(leveldb_writebatch_create) F(leveldb_writebatch_put) F(leveldb_writebatch_delete)              \
  F(leveldb_writebatch_clear) F(leveldb_writebatch_destroy) F(leveldb_compact_range)               \
  F(leveldb_cache_destroy) F(leveldb_filterpolicy_destroy) F(leveldb_free)                         \
  F(leveldb_major_version) F(leveldb_minor_version)
FUNCTIONS(PEER_FUNCTION)

struct peer_store {
  leveldb_t *db;
  leveldb_options_t *options;
  leveldb_writeoptions_t *write;
  leveldb_writebatch_t *batch;
  leveldb_cache_t *cache;
  leveldb_filterpolicy_t *filter;
  bool in_batch;
};

struct peer_reader {
  leveldb_iterator_t *iterator;
  peer_store *store;
  leveldb_readoptions_t *options;
  char *value;
};

static const char *load(void) {
  void *library = peer_open_library("leveldb");
  if (!library) return peer_message_text;
  FUNCTIONS(PEER_FIND)
  return NULL;
}

static const char *version(void) {
  static char text[32];
  snprintf(text, sizeof text, "%d.%d", p_leveldb_major_version(), p_leveldb_minor_version());
  return text;
}

static int failed(const char *what, char *error) {
  if (!error) return 0;
  peer_fail(what, error);
  p_leveldb_free(error);
  return -1;
}

static void release(peer_store *store) {
  p_leveldb_writebatch_destroy(store->batch);
  p_leveldb_writeoptions_destroy(store->write);
  p_leveldb_options_destroy(store->options);
  p_leveldb_cache_destroy(store->cache);
  p_leveldb_filterpolicy_destroy(store->filter);
  free(store);
}

static peer_store *open_store(const char *path, const peer_options *options) {
  peer_store *store = calloc(1, sizeof *store);
  store->options = p_leveldb_options_create();
  store->cache = p_leveldb_cache_create_lru(512 << 20);
  store->filter = p_leveldb_filterpolicy_create_bloom(10);
  p_leveldb_options_set_create_if_missing(store->options, 1);
  p_leveldb_options_set_compression(store->options, leveldb_snappy_compression);
  p_leveldb_options_set_cache(store->options, store->cache);
  p_leveldb_options_set_filter_policy(store->options, store->filter);
  p_leveldb_options_set_write_buffer_size(store->options, 64 << 20);
  store->write = p_leveldb_writeoptions_create();
  p_leveldb_writeoptions_set_sync(store->write, options->sync);
  store->batch = p_leveldb_writebatch_create();
  char *error = NULL;
  store->db = p_leveldb_open(store->options, path, &error);
  if (!failed("open", error)) return store;
  release(store);
  return NULL;
}

static int close_store(peer_store *store) {
  p_leveldb_close(store->db);
  release(store);
  return 0;
}

static int put(peer_store *store, peer_bytes key, peer_bytes value) {
  if (store->in_batch) {
    p_leveldb_writebatch_put(store->batch, key.bytes, key.length, value.bytes, value.length);
    return 0;
  }
  char *error = NULL;
  p_leveldb_put(store->db, store->write, key.bytes, key.length, value.bytes, value.length, &error);
  return failed("put", error);
}

static int remove_key(peer_store *store, peer_bytes key) {
  if (store->in_batch) {
    p_leveldb_writebatch_delete(store->batch, key.bytes, key.length);
    return 0;
  }
  char *error = NULL;
  p_leveldb_delete(store->db, store->write, key.bytes, key.length, &error);
  return failed("delete", error);
}

static int begin(peer_store *store) {
  p_leveldb_writebatch_clear(store->batch);
  store->in_batch = true;
  return 0;
}

static int commit(peer_store *store) {
  char *error = NULL;
  store->in_batch = false;
  p_leveldb_write(store->db, store->write, store->batch, &error);
  return failed("write", error);
}

static int compact(peer_store *store) {
  p_leveldb_compact_range(store->db, NULL, 0, NULL, 0);
  return 0;
}

static peer_reader *open_reader(peer_store *store) {
  peer_reader *reader = calloc(1, sizeof *reader);
  reader->store = store;
  reader->options = p_leveldb_readoptions_create();
  return reader;
}

static int get(peer_reader *reader, peer_bytes key, peer_bytes *value) {
  if (reader->value) p_leveldb_free(reader->value);
  char *error = NULL;
  reader->value = p_leveldb_get(reader->store->db, reader->options, key.bytes, key.length,
                                &value->length, &error);
  value->bytes = reader->value;
  if (failed("get", error)) return -1;
  return reader->value ? 0 : 1;
}

static int scan(peer_reader *reader, peer_bytes from,
                bool (*visit)(void *, peer_bytes, peer_bytes), void *context) {
  // One iterator serves all scans of a reader, until the reader is refreshed.
  if (!reader->iterator)
    reader->iterator = p_leveldb_create_iterator(reader->store->db, reader->options);
  leveldb_iterator_t *iterator = reader->iterator;
  if (from.length) {
    p_leveldb_iter_seek(iterator, from.bytes, from.length);
  } else {
    p_leveldb_iter_seek_to_first(iterator);
  }
  while (p_leveldb_iter_valid(iterator)) {
    peer_bytes key, value;
    key.bytes = p_leveldb_iter_key(iterator, &key.length);
    value.bytes = p_leveldb_iter_value(iterator, &value.length);
    if (!visit(context, key, value)) break;
    p_leveldb_iter_next(iterator);
  }
  char *error = NULL;
  p_leveldb_iter_get_error(iterator, &error);
  return failed("scan", error);
}

static int refresh(peer_reader *reader) {
  if (reader->iterator) p_leveldb_iter_destroy(reader->iterator);
  reader->iterator = NULL;
  return 0;
}

static void close_reader(peer_reader *reader) {
  refresh(reader);
  if (reader->value) p_leveldb_free(reader->value);
  p_leveldb_readoptions_destroy(reader->options);
  free(reader);
}

const peer_api peer_leveldb = {
    .name = "leveldb",
    .title = "LevelDB",
    .settings = "512 MB block cache, bloom filter of 10 bits, 64 MB write buffer, Snappy",
    .load = load, .version = version, .message = peer_message, .open = open_store,
    .close = close_store, .put = put, .remove = remove_key, .begin = begin, .commit = commit,
    .compact = compact, .reader = open_reader, .refresh = refresh, .get = get, .scan = scan,
    .close_reader = close_reader,
};
#else
PEER_MISSING(peer_leveldb, "leveldb", "LevelDB", "libleveldb-dev")
#endif
