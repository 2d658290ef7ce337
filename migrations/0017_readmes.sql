-- The README of each version, as its package's page shows it (DESIGN §8). It is rendered when the version is published.
create table version_readme (
  version_id bigint primary key references package_version (id) on delete cascade,
  format     text not null constraint readme_format_is_html_text_or_none check (format in ('html', 'text', 'none')),
  content    text not null constraint readme_max_512_kib check (octet_length(content) <= 524288)
);
comment on table version_readme is
  'A version of an earlier release has no row until its page is first opened; one without a README has the format none.';
