-- Messages of many webhooks to one host must not take all slots: their jobs are one crowd.
alter table job add column crowd text constraint job_crowd_max_300_characters check (char_length(crowd) <= 300);
comment on column job.crowd is
  'Of the jobs with one name and crowd, only a few run at a time, which src/ decides for each name. Null: no such rule.';

alter table webhook add column host text;
comment on column webhook.host is
  'The host of the URL, as browsers write it: the crowd of its jobs. Null for a webhook that an earlier release has added.';
update webhook set host = lower(substring(url from '^[a-zA-Z]+://(\[[^\]]*\]|[^/:?#\\]+)'));
