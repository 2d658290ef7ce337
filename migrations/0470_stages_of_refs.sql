-- A review decides what becomes of a staged tag or branch, so its state is read from its stage.
alter table source_ref add column stage_id bigint;
comment on column source_ref.stage_id is
  'The stage of its version. No foreign key: a stage is deleted 90 days after its decision.';
