-- Attestations of versions (PEP 740), which svc has verified when they were uploaded.
alter table package_version add column provenance json, add column attested jsonb;
comment on column package_version.provenance is 'The provenance object, as it is served. Null without attestations.';
comment on column package_version.attested is
  'What each of its attestations says: type, the job that signed it, and the entry of the transparency log.';
alter table staged_version add column provenance json, add column attested jsonb;
comment on column staged_version.provenance is 'As in package_version, which gets it with the release.';
comment on column staged_version.attested is 'As in package_version.';
