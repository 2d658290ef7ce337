-- Lists of events have the order of time: event_about_account, event_about_application and event_of_actor serve them.
drop index event_of_account, event_of_application, identity_event_of_actor;
