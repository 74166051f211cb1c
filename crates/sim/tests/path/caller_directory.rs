//! A scripted directory.

use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Tier};
use seawall_pipeline::callers::{
    Caller, CallerDirectory, CallerIdentity, CallerOptions, CallerResolver, CredentialKind, DirectoryLookup,
    IdentifyError, StaticKeys,
};
use seawall_sim::World;
use seawall_store::{CallerRecord, StoreError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const BELIEVED: Duration = Duration::from_secs(10);
pub(crate) const WITHIN: Duration = Duration::from_millis(50);

/// How the directory responds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// At once.
    Prompt,
    /// After this delay, with the record as of then.
    Late(Duration),
    /// With an error, at once.
    Away,
}

pub(crate) struct ObedientDirectory {
    world: World,
    state: Mutex<State>,
}

struct State {
    records: BTreeMap<[u8; 32], CallerRecord>,
    manner: Manner,
    lookups: usize,
}

pub(crate) fn hash(of: u8) -> [u8; 32] {
    [of; 32]
}

pub(crate) fn key(of: u8) -> CallerIdentity {
    CallerIdentity::Credential { hash: hash(of), kind: CredentialKind::Key, tier: None }
}

pub(crate) fn subject(of: u8) -> CallerIdentity {
    CallerIdentity::Credential { hash: hash(of), kind: CredentialKind::Token, tier: Some(Tier::Standard) }
}

impl ObedientDirectory {
    pub(crate) fn new(world: &World) -> Arc<Self> {
        let state = State { records: BTreeMap::new(), manner: Manner::Prompt, lookups: 0 };
        Arc::new(Self { world: world.clone(), state: Mutex::new(state) })
    }

    pub(crate) fn add(&self, of: u8, tier: Tier, ceiling: Option<Ceiling>) {
        let record = CallerRecord {
            caller: 1_000 + u64::from(of),
            name: "somebody".into(),
            tier,
            ceiling,
            created: UtcTime::from_nanos(0),
            revoked: None,
            contract: Default::default(),
        };
        self.state.lock().unwrap().records.entry(hash(of)).or_insert(record);
    }

    pub(crate) fn revoke(&self, of: u8) {
        if let Some(record) = self.state.lock().unwrap().records.get_mut(&hash(of)) {
            record.revoked = Some(UtcTime::from_nanos(1));
        }
    }

    pub(crate) fn behave(&self, manner: Manner) {
        self.state.lock().unwrap().manner = manner;
    }

    /// The number of lookups.
    pub(crate) fn lookups(&self) -> usize {
        self.state.lock().unwrap().lookups
    }
}

impl CallerDirectory for ObedientDirectory {
    fn find(&self, hash: &[u8; 32]) -> DirectoryLookup<'_> {
        let hash = *hash;
        Box::pin(async move {
            let manner = {
                let mut state = self.state.lock().unwrap();
                state.lookups += 1;
                state.manner
            };
            match manner {
                Manner::Away => return Err(StoreError::unavailable("test", "switched off by the test")),
                Manner::Late(wait) => self.world.sleep(wait).await,
                Manner::Prompt => {}
            }
            Ok(self.state.lock().unwrap().records.get(&hash).cloned())
        })
    }
}

/// The caller lookup over a directory, and a world to run it in.
pub(crate) struct ResolverHarness {
    pub(crate) world: World,
    pub(crate) directory: Arc<ObedientDirectory>,
    pub(crate) callers: Arc<CallerResolver>,
}

impl ResolverHarness {
    pub(crate) fn new(guests: bool) -> Self {
        let world = World::new(11);
        let directory = ObedientDirectory::new(&world);
        let options = CallerOptions {
            keys: StaticKeys::default(),
            directory: Some(Arc::<ObedientDirectory>::clone(&directory)),
            cache_ttl: BELIEVED,
            lookup_timeout: WITHIN,
            allows_guests: guests,
        };
        Self { world, directory, callers: Arc::new(CallerResolver::new(options)) }
    }

    /// Starts a lookup in a task of its own; the result is available when the world has run.
    pub(crate) fn ask(&self, identity: CallerIdentity) -> Arc<Mutex<Option<Result<Caller, IdentifyError>>>> {
        let answer = Arc::new(Mutex::new(None));
        let (callers, world, result) = (Arc::clone(&self.callers), self.world.clone(), Arc::clone(&answer));
        self.world.spawn(async move {
            let found = callers.find(&world, &identity).await;
            *result.lock().unwrap() = Some(found);
        });
        answer
    }

    /// Looks up and waits for the result.
    pub(crate) fn find(&self, identity: CallerIdentity) -> Result<Caller, IdentifyError> {
        let answer = self.ask(identity);
        self.world.run();
        answer.lock().unwrap().take().unwrap()
    }

    /// Advances the time.
    pub(crate) fn wait(&self, time: Duration) {
        let world = self.world.clone();
        self.world.spawn(async move { world.sleep(time).await });
        self.world.run();
    }
}
