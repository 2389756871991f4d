# Deploys a limiter as a part of a Terraform configuration: the exported template as
# a CloudFormation stack, and a role of your own that may acquire.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "name" {
  description = "The name of the stack and of its table."
  type        = string
  default     = "my-app"
}

variable "artifacts" {
  description = "A bucket in the region of the stack, for the code of its functions."
  type        = string
}

# The key has the hash of the code, so that new code updates the functions.
resource "aws_s3_object" "code" {
  bucket = var.artifacts
  key    = "zae-limiter/${filesha256("${path.module}/lambda.zip")}.zip"
  source = "${path.module}/lambda.zip"
}

resource "aws_cloudformation_stack" "limiter" {
  name          = var.name
  template_body = file("${path.module}/template.yaml")
  capabilities  = ["CAPABILITY_NAMED_IAM"]

  parameters = {
    CodeBucket               = aws_s3_object.code.bucket
    CodeKey                  = aws_s3_object.code.key
    EnableDeletionProtection = "true"
    LogRetentionDays         = "90"
  }
}

resource "aws_iam_role" "service" {
  name = "${var.name}-service"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "lambda.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy_attachment" "may_acquire" {
  role       = aws_iam_role.service.name
  policy_arn = aws_cloudformation_stack.limiter.outputs["AcquireOnlyPolicyArn"]
}

output "table" {
  description = "The table for dynamo.Connect."
  value       = aws_cloudformation_stack.limiter.outputs["TableName"]
}
