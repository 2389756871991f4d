// Deploys a limiter as a part of a CDK application: the exported template, and a
// role of your own that may acquire.
const { App, Stack, Validations } = require('aws-cdk-lib');
const { CfnInclude } = require('aws-cdk-lib/cloudformation-include');
const iam = require('aws-cdk-lib/aws-iam');

const app = new App();
const stack = new Stack(app, 'my-app'); // the name of the stack is the name of the table
const limiter = new CfnInclude(stack, 'Limiter', {
  templateFile: 'template.yaml',
  parameters: {
    CodeBucket: 'my-artifacts', // with the file of zae-limiter lambda-export
    CodeKey: 'lambda.zip',
    EnableDeletionProtection: 'true',
    LogRetentionDays: 90,
  },
});

const service = new iam.Role(stack, 'ServiceRole', { assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com') });
service.addManagedPolicy(iam.ManagedPolicy.fromManagedPolicyArn(stack, 'MayAcquire', limiter.getResource('AcquireOnlyPolicy').ref));

// The CDK's checks do not look into the conditions of a template.
for (const [rule, reason] of [
  ['E3019', 'a role has the name of its parameter only if the parameter is set'],
  ['W1001', 'EnableIAM is true, so the policy exists'],
  ['W1030', 'a blank parameter is not used'],
  ['W8003', 'EnableDeletionProtection is set above'],
]) {
  Validations.of(stack).acknowledge({ id: `CloudFormation-Validate::${rule}`, reason });
}

app.synth();
