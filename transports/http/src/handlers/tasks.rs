//! Background tasks: list and stop. Clause: H23.

use super::Larik;
use crate::views;
use triplane_protocol::{
    Failure,
    larik::{ListTasks, StopTask, Tasks},
    rest::{Handle, Input},
};

impl Handle<ListTasks> for Larik {
    async fn handle(&self, input: Input<ListTasks>) -> Result<Tasks, Failure> {
        let id = input.path.id;
        let tasks = self.or_nothing(&id, self.plane.tasks(&id), Vec::new()).await?;
        Ok(Tasks { tasks: tasks.into_iter().map(views::task).collect() })
    }
}

impl Handle<StopTask> for Larik {
    async fn handle(&self, input: Input<StopTask>) -> Result<(), Failure> {
        Ok(self.plane.stop_task(&input.path.id, &input.path.task_id).await?)
    }
}
