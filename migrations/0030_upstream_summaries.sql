-- Versions that an upstream's summary of malware names, as one constraint.
alter table mirrored_package add column summary text;
comment on column mirrored_package.summary is 'From the filter summary of its upstream; null when it does not name the package.';
