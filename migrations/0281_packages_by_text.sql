create index concurrently if not exists package_by_text on package
  using gin (name gin_trgm_ops, search_text(name, description, keywords) gin_trgm_ops);
